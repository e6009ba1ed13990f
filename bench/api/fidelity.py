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
                made, right = disagreeing(output, expected)
                errors.append(float(np.mean(_differences(made, right) ** 2)) if right.size else 0.0)
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
    import numpy as np

    return output != expected if expected.dtype.kind == "U" else output.astype(np.float64) - expected


def noise_share(output: np.ndarray, expected: np.ndarray) -> float:
    """The power of an output's error over the power of the reference's output, or the share of integers that differ.

    Values that agree and are not finite count for neither, see `disagreeing`.
    """
    import numpy as np

    output, expected = disagreeing(output, expected)
    if not expected.size or np.array_equal(output, expected):
        return 0.0
    if expected.dtype.kind != "f":
        return float(np.mean(output != expected))
    scale = float(np.abs(expected).max()) or 1.0  # keeps squares from overflowing
    noise = power = 0.0
    for made, right in pieces(output, expected):
        signal = right.astype(np.float64)
        error = (made.astype(np.float64) - signal) / scale
        signal /= scale
        noise += float(np.dot(error, error))
        power += float(np.dot(signal, signal))
    return noise / power if power else math.inf


def pieces(*arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Arrays of one shape in flat pieces that fit a processor's cache: temporaries of a whole output cost more time."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, PIECE):
        yield tuple(array[start : start + PIECE] for array in flat)
