"""Outputs beside the reference's: whether they can be compared, and how far their values differ.

Values that are not finite agree where both outputs hold the same infinity, or both NaN, as a mask does by design. The
shape of an output may depend on the data of a sample: then samples are compared one by one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from bench.api import Arrays, ragged
from bench.api.fidelity import errors, pieces, widened
from bench.onnxfile.deferred import np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Differences:
    """How outputs differ from the reference's.

    Attributes:
        fault: why they are wrong, whatever a metric says: another type, or values that are not finite where the
            reference has others; None where they are not.
        shapes: by the name of an output that has another shape than the reference's, where that is; the values of the
            other samples were compared.
        num_unlike: number of samples with such an output.
        absolute: the largest absolute difference of an element; 1 for strings that differ.
        relative: the same as a share of the largest magnitude of the reference's output.
        unknown: names of outputs of which the reference has no finite value, so that nothing shows how right they are.
        is_other: whether an integer, a bool or a string is not the reference's, which no tolerance of numbers excuses.
        empty: names of outputs that have no element, as the reference has none, so that nothing was compared.
    """

    fault: str | None = None
    shapes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    num_unlike: int = 0
    absolute: float = 0.0
    relative: float = 0.0
    is_other: bool = False
    unknown: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether every element is the reference's."""
        return self.fault is None and not self.shapes and self.absolute == 0

    def reason(self, num_samples: int) -> str | None:
        """Why outputs are broken that must have the reference's shapes, and how other samples differ; None if not.

        Args:
            num_samples: number of samples that were compared.
        """
        if self.fault is not None or not self.shapes:
            return self.fault
        others = num_samples - self.num_unlike
        if others <= 0:
            return "; ".join(self.shapes.values())
        ends = "equal" if self.absolute == 0 else f"off by up to {self.relative:.2g} of the largest magnitude"
        which = "the other sample is" if others == 1 else f"the other {others} samples are"
        return "; ".join([*self.shapes.values(), f"{which} {ends}"])


def between(outputs: Arrays, expected: Arrays, rows: Sequence[int] | None = None) -> Differences:
    """Compare all outputs.

    Args:
        outputs: output arrays by name, with the samples along the first axis, or as `bench.api.ragged` has them.
        expected: the reference's.
        rows: places of the samples in their split, as messages tell them; None for all samples in their own order.
    """
    shapes: dict[str, str] = {}
    unlike: set[int] = set()
    unknown: list[str] = []
    empty: list[str] = []
    is_other = False
    error_pairs: list[tuple[float, float]] = [(0.0, 0.0)]
    for name, reference in expected.items():
        output = outputs[name]
        if (fault := _fault_of_type(name, output, reference)) is not None:
            return Differences(fault=fault)
        different = _unlike(output, reference)
        if different:
            shapes[name] = _said_of_shapes(name, output, reference, different, rows)
            unlike.update(different)
        elif not ragged.flat(reference).size:
            empty.append(name)
        if "f" in (ragged.dtype_of(output).kind, ragged.dtype_of(reference).kind):
            if (fault := _fault_of_values(name, output, reference, rows)) is not None:
                return Differences(fault=fault)
            if _has_no_finite(reference):
                unknown.append(name)
        error_pairs.append(_errors(output, reference))
        is_other |= ragged.dtype_of(reference).kind in "biuU" and error_pairs[-1][0] != 0
    return Differences(
        shapes=shapes,
        num_unlike=len(unlike),
        # Unlike the builtin, these maxima keep a NaN.
        absolute=float(np.max([absolute for absolute, _ in error_pairs])),
        relative=float(np.max([relative for _, relative in error_pairs])),
        is_other=is_other,
        unknown=tuple(unknown),
        empty=tuple(empty),
    )


def comparable(output: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The values of the samples that have the same shape in both, flat; None where nothing can be compared."""
    if _fault_of_type("", output, reference) is not None:
        return None
    pairs = [(part.reshape(-1), right.reshape(-1)) for _, part, right in _pairs(output, reference)]
    if not pairs:
        return None
    parts, right = zip(*pairs, strict=True)
    return (*parts, *right) if len(pairs) == 1 else (np.concatenate(parts), np.concatenate(right))


def unlike_share(output: np.ndarray, reference: np.ndarray) -> float:
    """The share of the samples that have another shape than the reference's; all of them, of another number."""
    different = _unlike(output, reference)
    return len(different) / max(map(_num, (output, reference))) if different else 0.0


def _fault_of_type(name: str, output: np.ndarray, reference: np.ndarray) -> str | None:
    """Why the elements of an output cannot be compared; None where they can."""
    dtype, right = ragged.dtype_of(output), ragged.dtype_of(reference)
    if right.kind == "U":
        return None if dtype.kind == "U" else f"output {name} holds {dtype}, not strings"
    if not np.issubdtype(dtype, np.number) and dtype != np.bool_:
        return f"output {name} holds {dtype}, not numbers"
    return None


def _unlike(output: np.ndarray, reference: np.ndarray) -> list[int]:
    """The places of the samples that have another shape than the reference's; of another number of samples, all."""
    if not (ragged.is_ragged(output) or ragged.is_ragged(reference)):
        return [] if output.shape == reference.shape else [*range(max(map(_num, (output, reference))))]
    if len(output) != len(reference):
        return [*range(max(len(output), len(reference)))]
    return [
        row for row, pair in enumerate(zip(output, reference, strict=True)) if np.shape(pair[0]) != np.shape(pair[1])
    ]


def _num(array: np.ndarray) -> int:
    return len(array) if array.ndim else 1


def _said_of_shapes(
    name: str, output: np.ndarray, reference: np.ndarray, different: Sequence[int], rows: Sequence[int] | None
) -> str:
    """Where the shape of an output is another than the reference's."""
    if not (ragged.is_ragged(output) or ragged.is_ragged(reference)):
        return f"output {name} has shape {output.shape}; the reference has {reference.shape}"
    if len(output) != len(reference):
        return f"output {name} has {len(output)} samples; the reference has {len(reference)}"
    first = different[0]
    own, right = np.shape(output[first]), np.shape(reference[first])
    if own[1:] == right[1:] and own and right:
        example = f"sample {_place(first, rows)} has {own[0]} row{'s' * (own[0] != 1)}, the reference {right[0]}"
    else:
        example = f"sample {_place(first, rows)} has shape {own}, the reference {right}"
    of = f"{len(different)} of {len(output)} samples"
    return f"output {name} has another shape than the reference's in {of}: {example}"


def _place(row: int, rows: Sequence[int] | None) -> int:
    return row if rows is None else rows[row]


def _pairs(output: np.ndarray, reference: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """The parts of an output that have the reference's shape: all samples at once, or each with its place."""
    if not (ragged.is_ragged(output) or ragged.is_ragged(reference)):
        if output.shape == reference.shape:
            yield 0, output, reference
    elif len(output) == len(reference):
        for row, pair in enumerate(zip(output, reference, strict=True)):
            part, right = map(np.asarray, pair)
            if part.shape == right.shape:
                yield row, part[None], right[None]


def _fault_of_values(name: str, output: np.ndarray, reference: np.ndarray, rows: Sequence[int] | None) -> str | None:
    """How many values of an output are not finite, or finite, where the reference's are others; None where none is."""
    num_not_finite = num_finite = total = 0
    first: str | None = None
    for start, part, right in _pairs(output, reference):
        total += right.size
        if np.isfinite(right).all() and np.isfinite(part).all():
            continue
        is_finite = np.isfinite(part)
        agree = (part == right) | (np.isnan(part) & np.isnan(right))
        wrong = ~agree & ~(is_finite & np.isfinite(right))
        num_finite += int(np.count_nonzero(wrong & is_finite))
        num_not_finite += int(np.count_nonzero(wrong & ~is_finite))
        if first is None and wrong.any():
            place = tuple(int(index) for index in np.argwhere(wrong)[0])
            within = f" at {list(place[1:])}" if len(place) > 1 else ""
            sample = f"sample {_place(start + place[0], rows)}{within}"
            first = f"the first, {part[place]:.6g} in {sample}, is {right[place]:.6g} in the reference"
    if first is None:
        return None
    instead = f"{num_finite} finite values where the reference's are not finite"
    if not num_not_finite:
        return f"output {name} holds {instead}, of {total}; {first}"
    more = f", and {instead}" if num_finite else ""
    return f"output {name} holds {num_not_finite} values that are not finite, of {total}{more}; {first}"


def _has_no_finite(reference: np.ndarray) -> bool:
    """Whether there are values, and none is finite."""
    values = ragged.flat(reference)
    return bool(values.size) and not np.isfinite(values).any()


def _errors(output: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """The largest absolute difference, and its ratio to the largest magnitude of the reference; strings differ by 1."""
    absolute, scale = 0.0, 0.0
    for _, part, right in _pairs(output, reference):
        if right.dtype.kind == "U":
            absolute, scale = max(absolute, float(np.any(part != right))), 1.0
            continue
        for piece, other in pieces(part, right):
            with np.errstate(invalid="ignore"):
                differences, magnitudes = np.abs(errors(piece, other)), np.abs(widened(other))
            if not (is_finite := np.isfinite(differences)).all():
                agree = (piece == other) | (np.isnan(piece) & np.isnan(other))
                differences[agree & ~is_finite] = 0.0
                magnitudes = magnitudes[np.isfinite(magnitudes)]
            # Unlike the builtin, these maxima keep a NaN.
            absolute = float(np.maximum(absolute, differences.max()))
            scale = float(np.maximum(scale, magnitudes.max(initial=0.0)))
    return absolute, absolute / scale if scale else absolute
