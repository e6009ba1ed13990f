"""The model of the measurement: from the levels of all launches of a request to the ratio of any two cells.

    level = cell + block + state of the program + effect of the machine on the program + shock of the program + launch

All are on the scale of natural logarithms. The block is the state of the machine, which slows all programs alike. The
machine also acts on programs differently: the state of a program (the packages of its runtimes) is shared by all its
cells and by neighbouring blocks, of all requests, and fades over minutes; a smaller part of it belongs to one request
alone. A shock is shared by a runtime's cells of one block. Where several machines of one kind share the work, states
are each machine's own, and what a machine does to a program at all times is its effect: slower memory slows those
programs that wait for it. The launch is what differs from process to process: the layout of memory, the placement of
threads, and the noise of the passes.

Cells and blocks are fixed effects, estimated by generalized least squares, so two cells are compared through all blocks
that connect them. States, effects of machines, shocks and launches are random; `bench.measure.joint` estimates their
variances over all requests together. The interval of a difference is Student's, with Satterthwaite's degrees of
freedom. That of several machines is about their kind: what they do differently is part of it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from bench.measure.components import Components
from bench.measure.joint import Effects, Joint, Observation
from bench.measure.prior import USUAL, Prior
from bench.measure.stats import Effect
from bench.measure.variances import Variance, scaled

LEAST_PAIRS = 3
"""Fewest blocks in which a cell must have run twice for an alarm by its two launches."""


class Request:
    """The cells of one request, as the fit to all requests estimates them: see `fit`.

    Attributes:
        cells: names of the cells.
    """

    def __init__(self, joint: Joint, number: int) -> None:
        self._joint = joint
        self._number = number
        self._start = int(np.searchsorted(joint.request_C, number))
        self.cells = joint.cells[self._start : int(np.searchsorted(joint.request_C, number, side="right"))]

    @property
    def has_converged(self) -> bool:
        """Whether the estimates of the variances came to rest; see `Joint.fit`."""
        return self._joint.has_converged

    @property
    def effects(self) -> Mapping[Effects, Variance]:
        """Variances of the programs' states and shocks."""
        return self._joint.effects

    @property
    def machine_effects(self) -> Mapping[tuple[str, str], Effect]:
        """See `Joint.of_machines`."""
        return self._joint.of_machines()

    @property
    def variances(self) -> np.ndarray:
        """Variances across launches of the request's cells, of shape (C,)."""
        return self._joint.variances[self._start : self._start + len(self.cells)]

    def difference(self, cell: str, other: str) -> Effect:
        """Level of one cell minus that of another: the logarithm of the ratio of their latencies.

        Raises:
            KeyError: a cell without launches.
        """
        return self._components.effect(self._difference(cell, other))

    def believed_share(self, cell: str, other: str) -> float:
        """Of what is known of the variance of the difference, the share that was believed before any launch.

        Raises:
            KeyError: a cell without launches.
        """
        return self._components.believed_share(self._difference(cell, other))

    def covariance(self, cells: Sequence[str]) -> np.ndarray:
        """Covariance of the errors of the levels of K cells, of shape (K, K).

        Raises:
            KeyError: a cell without launches.
        """
        return self._components.covariance([self._index(cell) for cell in cells])

    def latency(self, cell: str) -> Effect:
        """Level of a cell, the logarithm of its latency in nanoseconds, in the usual state of the machine.

        Raises:
            KeyError: a cell without launches.
        """
        state = self._joint.block_state
        share = self._joint.shared_by_blocks(self._number)  # of the variance of one block
        further = dataclasses.replace(state, value=state.value * share)
        return self._components.effect({self._index(cell): 1.0, -1: 1.0}, further)

    def control(self, cell: str) -> Effect | None:
        """Second launch over first, in the blocks that held the cell twice; None for fewer than `LEAST_PAIRS` of these.

        Both run the same program in the same minutes, so only the launches differ. Their variance is that of other
        cells and of the prior, and how far the pairs differ from one another; their mean tells nothing of it, or no
        mean could be too large. Source: Smyth 2004, doi 10.2202/1544-6115.1027 (moderated variances).
        """
        joint, index = self._joint, self._start + self._index(cell)
        own_N = np.flatnonzero(joint.cell_N == index)
        pairs = [
            pair for block in np.unique(joint.block_N[own_N]) if len(pair := own_N[joint.block_N[own_N] == block]) == 2
        ]
        if len(pairs) < LEAST_PAIRS:
            return None
        changes = np.array([joint.level_N[second] - joint.level_N[first] for first, second in pairs])
        lost = float(np.mean([joint.lost_N[pair].sum() for pair in pairs]))
        by_others = joint.launch_variance_by_others(index)
        known, known_freedom = scaled(by_others.value, 2 / by_others.freedom)
        freedom = known_freedom + len(pairs) - 1
        own = max(0.0, float(changes.var(ddof=1)) - lost) / 2
        variance = (known_freedom * known + (len(pairs) - 1) * own) / freedom
        return Effect(value=float(changes.mean()), error=math.sqrt((2 * variance + lost) / len(pairs)), freedom=freedom)

    def _difference(self, cell: str, other: str) -> dict[int, float]:
        """The weights of a request's estimates in a difference."""
        return {self._index(cell): 1.0, self._index(other): -1.0} if cell != other else {}

    def _index(self, cell: str) -> int:
        if cell not in self.cells:
            raise KeyError(cell)
        return self.cells.index(cell)

    @functools.cached_property
    def _components(self) -> Components:
        return self._joint.components(slice(self._start, self._start + len(self.cells)), self._number)


def fit(requests: Sequence[Sequence[Observation]], prior: Prior = USUAL) -> list[Request]:
    """Fit the model to the launches of several requests.

    Raises:
        ValueError: cells of a request that no block connects.
    """
    if not requests:
        return []
    with threadpool_limits(1, user_api="blas"):  # the matrices are small: threads would only wait for one another
        joint = Joint(requests, prior)
        joint.fit()
        return [Request(joint, number) for number in range(len(requests))]
