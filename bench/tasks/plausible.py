"""Whether the outputs of a model on made-up inputs can show that a deployment is wrong."""

from __future__ import annotations

from bench.api import Arrays, ragged
from bench.onnxfile.deferred import np
from bench.onnxfile.file.training import DIFFERS, SETTLE
from bench.tasks.failures import one_line
from bench.tasks.probe import Run

_SATURATED = 1e-6
"""Probabilities that are nearer to 0 or to 1 do not move with small errors of the model."""


SAME = 1e-2
"""Two runs of a model that draws no random numbers differ by less, as a share of the largest value."""


def _agrees(array: np.ndarray, other: np.ndarray) -> bool:
    """Whether two runs with the same inputs gave the same, but for the rounding of sums in another order."""
    if array.shape != other.shape:
        return False
    if array.dtype.kind != "f" or not array.size or not np.isfinite(array).all():
        return np.array_equal(array, other, equal_nan=array.dtype.kind == "f")
    return bool(np.abs(array - other).max() <= SAME * np.abs(array).max())


def unsteady(run: Run, feeds: Arrays) -> tuple[str, ...]:
    """Lines about the outputs that differ between two runs with the same inputs."""
    outputs, again = run(feeds), run(feeds)
    differs = [name for name, array in outputs.items() if not _agrees(np.asarray(array), np.asarray(again[name]))]
    return tuple(f"output {name!r} {DIFFERS}, so its fidelity says little; {SETTLE}" for name in differs)


def doubts(run: Run, first: Arrays, second: Arrays) -> tuple[str, ...]:
    """Lines about the outputs whose fidelity says nothing, because they are always the same, or are saturated.

    Args:
        run: runs the model once.
        first: made-up inputs by name.
        second: other made-up inputs of the same shapes.
    """
    outputs, again = run(first), run(first)
    try:
        other = run(second)
    except Exception as error:
        return (f"it runs with some made-up inputs and not with others ({one_line(error)}); give real samples",)
    lines = []
    for name, array in outputs.items():
        values = np.asarray(array)
        what, advice = None, "give real samples with --dataset"
        if not _agrees(values, np.asarray(again[name])):
            what, advice = DIFFERS, SETTLE
        elif not values.size and not np.asarray(other[name]).size:
            what = "is empty for made-up inputs"
        elif values.dtype.kind == "f" and values.size and not np.isfinite(values).any():
            what = "is not finite for made-up inputs"
        elif ragged.equal(values, np.asarray(other[name])):
            what = "is the same for different made-up inputs"
        elif values.dtype.kind == "f" and values.size > 1:
            finite = values[np.isfinite(values)]  # as a mask is not, by design
            if (np.minimum(np.abs(finite), np.abs(finite - 1)) < _SATURATED).all():
                what = "is 0 or 1 in every element for made-up inputs"
        if what:
            lines.append(f"output {name!r} {what}, so its fidelity says little; {advice}")
    return tuple(lines)
