"""Spot checks: an artifact that was verified in one cell gives the same outputs with another batch or more threads."""

from __future__ import annotations

from msgspec.structs import replace

from bench.pipeline import feeding
from bench.pipeline.quality import CLOSE, EXACT
from bench.records.lines import Quality

_FEWEST_SAMPLES = 8
SAME = (EXACT, CLOSE)
"""Fidelities of outputs that are the same but for rounding, by the task's own tolerance."""


def rows(num_samples: int, batch: int) -> list[int]:
    """Indices of the samples to check: whole batches, from the start of the drawn order in which all cells run.

    Args:
        num_samples: number of samples in the split.
        batch: number of samples in an inference.
    """
    return feeding.drawn(num_samples)[: -(-_FEWEST_SAMPLES // batch) * batch]


def vouched(
    verified: Quality, by: str, beside_verified: Quality, beside_reference: Quality, *, num_samples: int
) -> Quality | None:
    """The quality of a spot-checked cell, on its outputs; the fields on its session are those of the verified cell.

    The checked outputs must be `exact` or `close` beside those of the verified cell, and beside the reference's as well
    where the verified cell's whole outputs are. What those leave open, they leave open of this cell, too, whether or
    not the few samples show it.

    Args:
        verified: quality of the verified cell.
        by: path of the verified cell.
        beside_verified: judgement of the checked outputs against those of the verified cell.
        beside_reference: judgement of the checked outputs against those of the reference.
        num_samples: number of checked samples.

    Returns:
        The quality of the verified cell, with the larger errors of both cells; None where the cell must be verified
        with the whole split.
    """
    if beside_verified.fidelity not in SAME or (verified.fidelity in SAME and beside_reference.fidelity not in SAME):
        return None
    is_exact = verified.fidelity == EXACT and beside_verified.fidelity == EXACT
    errors = {
        name: max(getattr(each, name) or 0.0 for each in (verified, beside_reference))
        for name in ("max_abs_error", "relative_error")
    }
    return replace(
        verified,
        fidelity=CLOSE if verified.fidelity == EXACT and not is_exact else verified.fidelity,
        verified_by=by,
        num_spot_samples=num_samples,
        warning=None,
        time=None,
        **errors,
    )
