"""The parameters of an exported file beside those of the model that it was made of: each difference by its tensors."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.onnxfile.deferred import np
from bench.onnxfile.file import lazy
from bench.onnxfile.weights.parameters import learned, stored_nodes

_MOST_NAMED = 4
_FEW = 8


def explanation(source: Mapping[str, np.ndarray], file: Mapping[str, np.ndarray], *, framework: str) -> str | None:
    """A sentence that explains why a file has more or fewer parameters than its source; None where it has as many.

    A tensor of the source is in the file if one there has its name and size, its numbers in any order and type, or if
    tensors there hold parts of it, as of the stacked projections of an attention.

    Args:
        source: the parameters of the source by name, each once.
        file: the tensors of the file that hold parameters, by name.
        framework: what counts the parameters of the source, such as `PyTorch`.
    """
    num_source, num_file = (sum(array.size for array in arrays.values()) for arrays in (source, file))
    if num_source == num_file:
        return None
    missing, extra = differences(source, file)
    zeros = [name for name in missing if not np.any(source[name])]
    others = [name for name in missing if name not in zeros]
    lines = [
        (others, missing, "are not in the file"),
        (zeros, missing, "are not in the file, for they are all 0"),
        ([*extra], extra, f"are in the file and no parameters in {framework}"),
    ]
    parts = [
        f"{sum(sizes[name] for name in names):,} {what} ({_named(names)})" for names, sizes, what in lines if names
    ]
    return f"{framework} counts {num_source:,} parameters, and the file has {num_file:,}: {'; '.join(parts)}"


def differences(
    source: Mapping[str, np.ndarray], file: Mapping[str, np.ndarray]
) -> tuple[dict[str, int], dict[str, int]]:
    """How many numbers of each tensor of a source are not in a file, and of each tensor of the file not in the source.

    Tensors without a difference are left out, so the sum of the first, less that of the second, is the difference of
    all parameters.
    """
    left_source, left_file = dict(source), dict(file)
    for name in [*left_source]:
        if name in left_file and left_file[name].size == left_source[name].size:
            del left_source[name], left_file[name]
    _drop_alike(left_source, left_file)
    missing = {name: array.size for name, array in left_source.items()}
    for name, array in left_source.items():
        parts: list[str] = []
        ordered = np.sort(_numbers(array))
        for other, part in left_file.items():
            room = missing[name] - sum(left_file[tensor].size for tensor in parts)
            if part.size <= room and _is_within(_numbers(part), ordered):
                parts.append(other)
        for other in parts:
            missing[name] -= left_file.pop(other).size
    return {name: size for name, size in missing.items() if size}, {
        name: tensor.size for name, tensor in left_file.items()
    }


def arrays_of_onnx(path: Path) -> dict[str, np.ndarray]:
    """The stored arrays of an ONNX file that hold parameters, each once, by a name under which a node reads it.

    Raises:
        InputError: the file cannot be read.
    """
    stored = lazy.read(path)
    try:
        nodes = list(stored_nodes(stored))
        counted = learned(nodes)
        return {
            name: np.array(stored.array(value.tensor))
            for node in nodes
            for name, value in zip(node.reads, node.inputs, strict=False)
            if value is not None and value.tensor is not None and counted.get(id(value)) and stored.has(value.tensor)
        }
    finally:
        stored.files.clear()


def _drop_alike(source: dict[str, np.ndarray], file: dict[str, np.ndarray]) -> None:
    """Drop pairs of tensors with the same numbers, in any order, from both sides."""
    names: dict[object, list[str]] = collections.defaultdict(list)
    for name, array in file.items():
        names[_content(array)].append(name)
    for name in [*source]:
        if alike := names.get(_content(source[name])):
            del source[name], file[alike.pop()]


def _is_within(numbers: np.ndarray, ordered: np.ndarray) -> bool:
    """Whether all of some numbers are among those of an ordered array; the first few mostly tell."""
    for some in (numbers[:_FEW], numbers):
        places = np.searchsorted(ordered, some).clip(max=len(ordered) - 1)
        if not np.array_equal(ordered[places], some):
            return False
    return True


def _content(array: np.ndarray) -> object:
    return array.size, np.sort(_numbers(array)).tobytes()


def _numbers(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.float32).reshape(-1) + np.float32(0)  # so that -0 is 0


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
