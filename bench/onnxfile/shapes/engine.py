"""Every shape of an ONNX model as a function of its dynamic dimensions, compiled to one Python function.

Evaluating the function takes microseconds, so a model can be asked for many sizes without inferring its shapes again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api.errors import InputError, suggest
from bench.onnxfile.file import normalized
from bench.onnxfile.file.lazy import Stored, read
from bench.onnxfile.shapes import inference, tensors
from bench.onnxfile.shapes.dims import OPERATIONS, Atom, Dim, Shape, Size, symbols
from bench.onnxfile.shapes.steps import Inferred

if TYPE_CHECKING:
    import onnx


def compile_shapes(shapes: Mapping[str, Shape], names: Sequence[str]) -> Callable[..., dict[str, tuple[int, ...]]]:
    """Compile shapes to a Python function that takes the dimensions `names`, in that order, and returns every shape.

    The function computes each expression once, however many shapes use it. Names never become code.

    Args:
        shapes: by name of the tensor; they may use no other dimensions than `names`.
    """
    lines: list[str] = []
    local: dict[bytes, str] = {Atom("", (name,)).key: f"d{index}" for index, name in enumerate(names)}

    def written(size: Size | Atom) -> str:
        """The code for a size or an atom; the lines that compute its parts are added to `lines` first."""
        if isinstance(size, int):
            return repr(size)
        if size.key not in local:
            if isinstance(size, Dim):
                code = " + ".join(
                    "*".join([repr(factor)] * (factor != 1 or not monomial) + [written(atom) for atom in monomial])
                    for monomial, factor in size.terms.items()
                )
            else:
                arguments = [written(argument) for argument in size.arguments]
                pattern = OPERATIONS[size.operation][1]
                code = pattern.format(*arguments) if pattern else f"{size.operation}({', '.join(arguments)})"
            lines.append(f"v{len(lines)} = {code}")
            local[size.key] = f"v{len(lines) - 1}"
        return local[size.key]

    tuples = {shape: f"s{index}" for index, shape in enumerate(dict.fromkeys(shapes.values()))}
    for shape, name in tuples.items():
        sizes = [written(size) for size in shape]
        lines.append(f"{name} = ({''.join(size + ', ' for size in sizes)})")
    entries = ", ".join(f"{name!r}: {tuples[shape]}" for name, shape in shapes.items())
    body = "\n    ".join([*lines, f"return {{{entries}}}"])
    scope: dict[str, Any] = {name: function for name, (function, _) in OPERATIONS.items()}
    exec(f"def shapes({', '.join(local[Atom('', (name,)).key] for name in names)}):\n    {body}", scope)
    compiled: Callable[..., dict[str, tuple[int, ...]]] = scope["shapes"]
    return compiled


def unknowns(size: Size) -> list[Atom]:
    """The named dimensions in a size whose values depend on data."""
    return [atom for atom in symbols(size) if not atom.is_free]


class ShapeEngine:
    """The shapes of a model's tensors, for any sizes of its dynamic dimensions.

    The shapes are compiled to one function when the engine is made; a call takes microseconds.

    Attributes:
        dims: names of the dynamic dimensions, such as `("batch", "height")`.
        expressions: the shape of each tensor, by name, as expressions of `dims`. A tensor whose number of axes is not
            known is left out. A tensor inside a subgraph is named `<path>:<name>`.
        undecided: tensors whose shapes depend on data, not on the dimensions alone.
    """

    def __init__(self, inferred: Inferred) -> None:
        self.expressions: dict[str, Shape] = {
            name: value.shape for name, value in tensors.named_values(inferred) if value.shape is not None
        }
        self.dims: tuple[str, ...] = tensors.stated_of(tensors.stated_dims(inferred.model)).dims
        decided = {name: shape for name, shape in self.expressions.items() if not any(map(unknowns, shape))}
        self.undecided: tuple[str, ...] = tuple(name for name in self.expressions if name not in decided)
        self._compiled = compile_shapes(decided, self.dims)

    @classmethod
    def of_file(cls, path: Path | str) -> ShapeEngine:
        """The engine of an ONNX file, whose weights are not loaded.

        Raises:
            InputError: as `bench.onnxfile.profile`.
        """
        return cls(_inferred(read(Path(path)).model, Path(path)))

    @classmethod
    def of_model(cls, model: onnx.ModelProto) -> ShapeEngine:
        """The engine of a model in memory."""
        return cls(_inferred(model, None))

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor that is not undecided, by name.

        Args:
            sizes: of every dynamic dimension, by name.

        Raises:
            InputError: a size is missing, or there is no such dimension.
        """
        if sizes.keys() != set(self.dims):
            for name in sizes:
                if name not in self.dims:
                    raise InputError(f"no dimension {name!r}; {suggest(name, self.dims)}")
            raise InputError(f"no size for: {', '.join(name for name in self.dims if name not in sizes)}")
        return self._compiled(*(sizes[name] for name in self.dims))


def _inferred(model: onnx.ModelProto, path: Path | None) -> Inferred:
    """The values of a model whose dynamic dimensions stay symbols."""
    stored = Stored(model=normalized.settle(model), path=path)
    inputs = {name: shape for name, shape in tensors.dynamic_inputs(stored.model).items() if shape is not None}
    return inference.infer(stored, inputs)
