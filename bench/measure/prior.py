"""What is believed of the variances in the model of the measurement before any launch."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prior:
    """What is believed of the variances before any launch, on the log scale.

    The figures are those of `results/zen5` and of repeated runs on shared machines of two cores: launches of one
    cell differ by 0.3 to 5 %, and states of programs by 0.6 to 6 %. They are of all kinds of machines: by the stored
    results none differs from the others beyond what its sweeps differ by, see `benchmarks/priors.py`.

    Attributes:
        launch: standard deviation across launches of a cell.
        launch_common: how far the `launch` of a machine may be from this one: standard deviation of the logarithm of a
            standard deviation across launches, as are the next three.
        launch_request: how far that of a request is from those of others.
        launch_program: how far that of a program is from those of others.
        launch_own: how far that of a cell is from what its request and its program have in common.
        state: standard deviation of a program's state, which all requests share.
        own_state: standard deviation of a program's further state, which each request has for itself.
        machine: standard deviation of what a machine does to a program at all times, beside the others of its kind.
        shock: standard deviation of a program's shocks, of which each runtime has its own.
        shock_tail: degrees of freedom of Student's t, by which shocks are distributed.
        freedom: weight of `state`, `own_state`, `shock` and `machine` beside those that were seen of all programs, in
            degrees of freedom.
        program_freedom: weight of the variance of all programs beside that which was seen of one of them, likewise.
        block: standard deviation of the machine's state, which acts on all programs alike.
        block_freedom: weight of `block` beside the blocks that were seen, in degrees of freedom.
        fading_s: seconds after which two states are correlated by 1 / e.
        lost: standard deviation, beside the others of its cell, of a launch that lost all of its time to others; of one
            that lost the share s, s squared times this.
    """

    launch: float = 0.018
    launch_common: float = 0.6
    launch_request: float = 0.5
    launch_program: float = 0.4
    launch_own: float = 0.7
    state: float = 0.03
    own_state: float = 0.012
    shock: float = 0.014
    shock_tail: float = 5.0
    machine: float = 0.015
    freedom: float = 2.0
    program_freedom: float = 4.0
    block: float = 0.08
    block_freedom: float = 3.0
    fading_s: float = 600.0
    lost: float = 0.25


USUAL = Prior()
