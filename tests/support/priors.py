"""Priors so firm that no launch changes them: errors of the model of the measurement can then be computed by hand."""

from __future__ import annotations

from bench.measure.prior import Prior

FIRM = 1e12
"""Degrees of freedom beside which no launches count."""


def firm(
    *, launch: float, state: float = 1e-4, shock: float = 1e-4, block: float = 1e-4, fading_s: float = 300.0
) -> Prior:
    """Standard deviations of launches, states, shocks and blocks that the model takes as they are."""
    return Prior(
        launch=launch,
        launch_common=0.0,
        launch_request=0.0,
        launch_program=0.0,
        launch_own=0.0,
        state=state,
        own_state=1e-6,
        shock=shock,
        shock_tail=FIRM,
        freedom=FIRM,
        program_freedom=FIRM,
        block=block,
        block_freedom=FIRM,
        fading_s=fading_s,
    )
