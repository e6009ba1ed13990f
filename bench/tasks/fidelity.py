"""Quality as fidelity: of a task without targets, how far outputs are from the reference's, in decibels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bench.api import Task

if TYPE_CHECKING:
    import numpy as np

    from bench.api import Arrays

    Target = Mapping[str, np.ndarray]

SAME_DB = 120.0  # as far as float32 goes; JSON has no infinity
BROKEN_DB = 10.0


class FidelityTask(Task):
    """A task whose samples have no targets: nothing is known but what the reference gives, so that is the truth."""

    metric_name = "snr_db"
    max_metric_loss = SAME_DB - BROKEN_DB

    def loss(self, outputs: Arrays, targets: Sequence[Target]) -> float:
        """Mean squared error against the reference's outputs, the mean over the outputs."""
        import numpy as np

        with np.errstate(over="ignore"):
            errors = [
                float(np.mean((outputs[name].astype(np.float64) - expected) ** 2)) if expected.size else 0.0
                for name, expected in _stacked(targets).items()
            ]
        return sum(errors) / len(errors)

    def metrics(self, outputs: Arrays, targets: Sequence[Target]) -> dict[str, float]:
        """`snr_db`: the reference's power over the error's, of the worst output, at most 120 dB; NaN if an output is.

        Of integers and bools the noise is the share that differ: classes and indices have no distance.
        """
        import numpy as np

        shares = [_noise_share(outputs[name], expected) for name, expected in _stacked(targets).items()]
        return {"snr_db": float(np.min([_decibels(share) for share in shares]))}

    def relative_loss(self, metric: float, reference: float) -> float:
        """The error's root mean square over the signal's: 1 % is 40 dB. Decibels have no share to lose."""
        return 0.0 if metric >= SAME_DB else 10 ** (-metric / 20)


def _stacked(targets: Sequence[Target]) -> dict[str, np.ndarray]:
    import numpy as np

    return {name: np.stack([target[name] for target in targets]) for name in targets[0]}


def _noise_share(output: np.ndarray, expected: np.ndarray) -> float:
    """Power of the error over power of the signal."""
    import numpy as np

    if not expected.size or np.array_equal(output, expected):
        return 0.0
    if expected.dtype.kind != "f":
        return float(np.mean(output != expected))
    signal = expected.astype(np.float64)
    scale = float(np.abs(signal).max()) or 1.0  # so that no square overflows
    noise = (output.astype(np.float64) - signal) / scale
    power = float(np.mean((signal / scale) ** 2))
    return float(np.mean(noise**2)) / power if power else math.inf


def _decibels(noise_share: float) -> float:
    if math.isnan(noise_share):  # which min and max would pass over
        return math.nan
    if noise_share == 0:
        return SAME_DB
    return max(-SAME_DB, min(SAME_DB, -10 * math.log10(noise_share)))
