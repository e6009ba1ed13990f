"""Fidelity, the quality of a task without targets: the distance of its outputs from the reference's, in decibels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bench.api import ragged
from bench.api.plugin import Arrays, Points, Task

if TYPE_CHECKING:
    import numpy as np

SAME_DB = 120.0
"""Of equal outputs: about the precision of float32, since JSON has no infinity."""
EXEMPT = "it is judged by fidelity alone"
PIECE = 1 << 16
"""Elements of an output that are compared at a time."""
BROKEN_DB = 10.0
"""Outputs with a lower ratio are broken."""
LARGEST = 1 << 53
"""Up to here, float64 holds every integer."""
_LAST = (1 << 11) - 1
"""The bits of an integer of 64 that float64 may not hold besides the first 53."""


class FidelityTask(Task):
    """A task whose samples have no targets: its targets are the outputs of the reference."""

    metric_name = "snr_db"
    max_metric_loss = SAME_DB - BROKEN_DB

    def loss(self, outputs: Arrays, targets: Sequence[Arrays]) -> float:
        """Mean over the outputs of each output's mean squared error against the reference's; strings differ by 1."""
        import numpy as np

        errors = []
        with np.errstate(over="ignore"):
            for output, expected in _pairs(outputs, targets).values():
                values, right = disagreeing(output, expected)
                errors.append(float(np.mean(_differences(values, right) ** 2)) if right.size else 0.0)
        return sum(errors) / len(errors)

    def metrics(self, outputs: Arrays, targets: Sequence[Arrays]) -> dict[str, float]:
        """`snr_db`, the signal-to-noise ratio of the worst output: the reference's power over the error's.

        It is between -120 and 120 dB, or NaN where an output has a value that is not finite and not the reference's.
        The noise of integers, bools and strings is the share of them that differ, since classes and indices have no
        distance.
        """
        import numpy as np

        shares = np.array([noise_share(*pair) for pair in _pairs(outputs, targets).values()])
        with np.errstate(divide="ignore"):
            ratios_db = np.clip(-10 * np.log10(shares), -SAME_DB, SAME_DB)  # NaN stays NaN
        return {"snr_db": float(ratios_db.min())}

    def points(self, outputs: Arrays, targets: Sequence[Arrays]) -> Points | str:
        """None: made-up or unlabelled samples tell how far outputs are off, not how often they are right."""
        return EXEMPT

    def metric_loss(self, metric: float, reference: float) -> float:
        """The error's root mean square over the signal's, such as 0.01 for 40 dB: a share of decibels means nothing."""
        return 0.0 if metric >= SAME_DB else 10 ** (-metric / 20)


def _pairs(outputs: Arrays, targets: Sequence[Arrays]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The values of each output and of the reference's in a row, by name; shapes may differ from sample to sample."""
    return {
        name: (ragged.flat(outputs[name]), ragged.flat([target[name] for target in targets])) for name in targets[0]
    }


def disagreeing(output: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values of two arrays of one shape, flat, without those that agree and are not finite.

    The same infinity in both is right, as a mask is by design, and so is NaN in both; but they have no magnitude that
    errors could be measured by.
    """
    import numpy as np

    output, expected = output.reshape(-1), expected.reshape(-1)
    if expected.dtype.kind != "f" or output.dtype.kind != "f" or np.isfinite(expected).all():
        return output, expected
    agree = ~np.isfinite(expected) & ((output == expected) | (np.isnan(output) & np.isnan(expected)))
    return output[~agree], expected[~agree]


def _differences(output: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return output != expected if expected.dtype.kind == "U" else errors(output, expected)


def errors(output: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """`output` minus `expected`, numbers or bools of any two types, as float64; complex as complex128.

    An error is zero only where both are the same number: integers beyond `LARGEST` are not rounded before they are
    compared.
    """
    if not (_is_long(output) or _is_long(expected)):
        return widened(output) - expected
    values, last = _parts(output)
    right, last_right = _parts(expected)
    return (values - right) + (last - last_right)


def _is_long(values: np.ndarray) -> bool:
    """Whether there may be integers beyond `LARGEST`."""
    return values.dtype.kind in "iu" and values.dtype.itemsize == 8


def _parts(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
    """Two floats for each number whose sum it is."""
    import numpy as np

    if not _is_long(values):
        return widened(values), 0.0
    last = (values & _LAST) * ((values > LARGEST) | (values < -LARGEST))
    return (values - last).astype(np.float64), last.astype(np.float64)


def widened(values: np.ndarray) -> np.ndarray:
    """Numbers or bools as float64; complex numbers as complex128."""
    import numpy as np

    return values.astype(np.result_type(values.dtype, np.float64))


def _num_unequal(output: np.ndarray, expected: np.ndarray) -> int:
    """The number of values that are not the same; NaN is not the same as NaN."""
    import numpy as np

    if output.dtype.kind == expected.dtype.kind:
        return int(np.count_nonzero(output != expected))
    # NumPy compares an integer with a float as two floats.
    return sum(int(np.count_nonzero(errors(*each))) for each in pieces(output, expected))


def noise_share(output: np.ndarray, expected: np.ndarray) -> float:
    """The power of an output's error over the power of the reference's output, or the share of integers that differ.

    Values that agree and are not finite count for neither, see `disagreeing`.
    """
    import numpy as np

    output, expected = disagreeing(output, expected)
    if not (num_unequal := _num_unequal(output, expected)):
        return 0.0
    if expected.dtype.kind != "f":
        return num_unequal / expected.size
    scale = float(np.abs(expected).max()) or 1.0  # keeps squares from overflowing
    noise = power = 0.0
    for values, right in pieces(output, expected):
        signal = right.astype(np.float64) / scale
        error = errors(values, right) / scale
        noise += float(np.dot(error, error))
        power += float(np.dot(signal, signal))
    return noise / power if power else math.inf


def pieces(*arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Arrays of one shape in flat pieces that fit a processor's cache: temporaries of a whole output cost more time."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, PIECE):
        yield tuple(array[start : start + PIECE] for array in flat)
