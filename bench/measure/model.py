"""The model of the measurement: from the levels of all launches of a request to the ratio of any two cells.

    level = cell + block + state of the program + jolt of the program + launch

All are on the scale of natural logarithms. The block is the state of the machine, which slows all programs alike. The
machine also acts on programs differently: the state of a program (a runtime) is shared by all its cells and by
neighbouring blocks, and fades over minutes; a jolt is shared by all its cells of one block alone. The launch is what
differs from process to process: the layout of memory, the placement of threads, and the noise of the passes.

Cells and blocks are fixed effects, estimated by generalized least squares, so two cells are compared through all blocks
that connect them. States, jolts and launches are random; their variances are estimated by restricted maximum likelihood
over all requests together. Few launches tell little of a variance, so that of each cell is drawn towards that of its
program's cells, that of a program towards that of all programs, and all towards what such machines have shown. The
interval of a difference is Student's, with Satterthwaite's degrees of freedom.

Sources: Patterson and Thompson 1971, doi 10.1093/biomet/58.3.545 (restricted maximum likelihood); Smyth 2004, doi
10.2202/1544-6115.1027 (variances drawn towards each other); Satterthwaite 1946, doi 10.2307/3002019.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from bench.measure.stats import Effect

MAX_STEPS = 40
CONVERGED = 0.02  # largest relative change of a variance in a step
LEAST_VARIANCE = 1e-8  # of anything: 0.01 %
LEAST_FREEDOM = 0.02  # fewer degrees of freedom say nothing of a variance
STATE, JOLT = "state", "jolt"
Effects = tuple[str, str]
"""A kind of effect, `STATE` or `JOLT`, and the name of the program."""
BELIEF_CELLS = 3.0  # cells' worth of belief in the variance across launches of all programs together


@dataclasses.dataclass(frozen=True, kw_only=True)
class Belief:
    """What is believed of the variances before any launch, on the log scale.

    The figures are those of `results/reference` and of repeated runs on shared machines of two cores: launches of one
    cell differ by 0.3 to 3 %, and states of programs by 1 to 6 %.

    Attributes:
        launch: standard deviation across launches of a cell.
        launch_freedom: weight of the program's variance beside a cell's own launches, in degrees of freedom.
        state: standard deviation of a program's state.
        jolt: standard deviation of a program's jolts.
        freedom: weight of `state` and of `jolt` beside those that were seen of all programs, in degrees of freedom.
        program_freedom: weight of the variance of all programs beside that which was seen of one of them, likewise.
        block: standard deviation of the machine's state, which acts on all programs alike.
        block_freedom: weight of `block` beside the blocks that were seen, in degrees of freedom.
        fading_s: seconds after which two states are correlated by 1 / e.
    """

    launch: float = 0.012
    launch_freedom: float = 4.0
    state: float = 0.035
    jolt: float = 0.01
    freedom: float = 2.0
    program_freedom: float = 4.0
    block: float = 0.08
    block_freedom: float = 3.0
    fading_s: float = 600.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Observation:
    """The level of one launch.

    Attributes:
        cell: path of the cell.
        program: what the machine's state acts on: the name of the cell's runtime.
        block: identifier of the block.
        time_s: when it ran, in seconds from any origin.
        level: natural logarithm of the latency in nanoseconds.
        variance: of `level` by the passes of the launch alone; the variance across launches is never taken as less.
    """

    cell: str
    program: str
    block: Hashable
    time_s: float
    level: float
    variance: float


class Request:
    """Launches of the cells of one request, and what the fit makes of them: see `fit`.

    Raises:
        ValueError: some cells never ran in a block that connects them with the others.
    """

    def __init__(self, observations: Sequence[Observation], fading_s: float) -> None:
        self.cells = sorted({seen.cell for seen in observations})
        program_of = {seen.cell: seen.program for seen in observations}
        self.programs = [program_of[cell] for cell in self.cells]
        blocks = list(dict.fromkeys(seen.block for seen in observations))
        self._cell_N = np.array([self.cells.index(seen.cell) for seen in observations])
        self._block_N = block_N = np.array([blocks.index(seen.block) for seen in observations])
        self._level_N = np.array([seen.level for seen in observations])
        self._is_cell_NC = np.equal.outer(self._cell_N, np.arange(len(self.cells))).astype(float)
        is_block_NB = np.equal.outer(block_N, np.arange(1, len(blocks))).astype(float)  # the first one is the origin
        self._design_NE = np.hstack([self._is_cell_NC, is_block_NB])
        if np.linalg.matrix_rank(self._design_NE) < self._design_NE.shape[1]:
            raise ValueError("no block connects all cells")
        time_N = np.array([seen.time_s for seen in observations])
        fading_NN = _fading(time_N, fading_s)
        self._fading_s = fading_s
        self._block_time_B = np.array([time_N[block_N == number].min() for number in range(len(blocks))])
        program_N = np.array([seen.program for seen in observations])
        same_NN = np.equal.outer(program_N, program_N)
        shared = {STATE: fading_NN * same_NN, JOLT: np.equal.outer(block_N, block_N) * same_NN}
        self._effect_NN = {
            (kind, name): shared_NN * (program_N == name)
            for kind, shared_NN in shared.items()
            for name in dict.fromkeys(self.programs)
        }
        passes_N = np.array([seen.variance for seen in observations])
        self._least_C = (passes_N @ self._is_cell_NC) / self._is_cell_NC.sum(axis=0)
        self.variances = np.maximum(self._least_C, 1e-4)
        self.freedoms = np.zeros(len(self.cells))
        self.effects: Mapping[Effects, tuple[float, float]] = {}
        self.block_state = (0.0, 1.0)

    def difference(self, cell: str, other: str) -> Effect:
        """Level of one cell minus that of another: the logarithm of the ratio of their latencies.

        Raises:
            KeyError: a cell without launches.
        """
        return self._effect({self._index(cell): 1.0, self._index(other): -1.0} if cell != other else {})

    def latency(self, cell: str) -> Effect:
        """Level of a cell, the logarithm of its latency in nanoseconds, in the usual state of the machine.

        Raises:
            KeyError: a cell without launches.
        """
        share = float(_fading(self._block_time_B, self._fading_s).mean())  # of the variance of one block
        return self._effect({self._index(cell): 1.0, -1: 1.0}, [(self.block_state[0] * share, self.block_state[1])])

    def block_evidence(self) -> tuple[float, float]:
        """Sum of squares of the blocks' effects about their mean, and the degrees of freedom that they are worth."""
        effects_B = np.append(self._estimator_EN[len(self.cells) :] @ self._level_N, 0.0)
        share = 1 - float(_fading(self._block_time_B, self._fading_s).mean())  # what blocks so near one another show
        return float(((effects_B - effects_B.mean()) ** 2).sum()), len(effects_B) * share

    def control(self, cell: str) -> Effect | None:
        """Second launch over first, in the blocks that held the cell twice; None where no block did.

        Both run the same program in the same minutes, so only the launches differ.
        """
        index = self._index(cell)
        rows = [
            np.flatnonzero((self._block_N == block) & (self._cell_N == index)) for block in np.unique(self._block_N)
        ]
        pairs = [pair for pair in rows if len(pair) == 2]
        if not pairs:
            return None
        value = float(np.mean([self._level_N[second] - self._level_N[first] for first, second in pairs]))
        return Effect(
            value=value,
            error=math.sqrt(2 * float(self.variances[index]) / len(pairs)),
            freedom=float(self.freedoms[index]),
        )

    def _effect(self, weights: Mapping[int, float], others: Sequence[tuple[float, float]] = ()) -> Effect:
        """A weighted sum of rows of `_components`; `others` are further variances in it, with degrees of freedom."""
        rows, row_weights = list(weights), np.array(list(weights.values()))
        value_R, variance_PRR, freedom_P = self._components
        variances = np.einsum("r,prs,s->p", row_weights, variance_PRR[:, rows][:, :, rows], row_weights)
        parts = [*zip(variances.tolist(), freedom_P.tolist(), strict=True), *others]
        parts = [(variance, freedom) for variance, freedom in parts if variance > 0]
        total = sum(variance for variance, _ in parts)
        freedom = total**2 / sum(variance**2 / freedom for variance, freedom in parts) if total else 1.0
        return Effect(value=float(row_weights @ value_R[rows]), error=math.sqrt(total), freedom=freedom)

    @functools.cached_property
    def _components(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The estimates with the parts of their covariance.

        A part belongs to a cell's launches, a program's state or its jolts.

        Returns:
            The levels of the cells and the mean of the blocks, of shape (R,); the parts of their covariance, of shape
            (P, R, R); and the degrees of freedom of each part's variance, of shape (P,).
        """
        num_cells = len(self.cells)
        mean_N = self._estimator_EN[num_cells:].sum(axis=0) / len(self._block_time_B)
        weights_RN = np.vstack([self._estimator_EN[:num_cells], mean_N])
        parts = []
        for index in range(num_cells):
            own_RN = weights_RN[:, self._cell_N == index]
            parts.append(self.variances[index] * own_RN @ own_RN.T)
        parts += [
            self.effects[name][0] * weights_RN @ effect_NN @ weights_RN.T for name, effect_NN in self._effect_NN.items()
        ]
        freedom_P = np.array([*self.freedoms, *(self.effects[name][1] for name in self._effect_NN)])
        return weights_RN @ self._level_N, np.array(parts), freedom_P

    def _index(self, cell: str) -> int:
        if cell not in self.cells:
            raise KeyError(cell)
        return self.cells.index(cell)

    def estimate(self, effects: Mapping[Effects, tuple[float, float]]) -> None:
        """Estimate the cells' levels, given the variances of the launches and of the programs' states and jolts."""
        self.effects = effects
        covariance_NN = np.diag(self.variances[self._cell_N])
        for name, effect_NN in self._effect_NN.items():
            covariance_NN = covariance_NN + effects[name][0] * effect_NN
        precision_NN = np.linalg.inv(covariance_NN)
        weighted_NE = precision_NN @ self._design_NE
        self._estimator_EN = np.linalg.solve(self._design_NE.T @ weighted_NE, weighted_NE.T)
        self._residual_NN = precision_NN - weighted_NE @ self._estimator_EN

    def launch_evidence(self) -> tuple[np.ndarray, np.ndarray]:
        """Each cell's variance across launches as the residuals tell it, and degrees of freedom, both of shape (C,)."""
        residual_N = self._residual_NN @ self._level_N
        score_C = (residual_N**2 - np.diag(self._residual_NN)) @ self._is_cell_NC
        information_C = np.einsum("ic,ij,jc->c", self._is_cell_NC, self._residual_NN**2, self._is_cell_NC)
        return _evidence(self.variances, score_C, information_C)

    def evidence(self) -> dict[Effects, tuple[float, float]]:
        """The score and the information of the variance of each program's state and of its jolts."""
        residual_N = self._residual_NN @ self._level_N
        found = {}
        for name, effect_NN in self._effect_NN.items():
            product_NN = self._residual_NN @ effect_NN
            score = float(residual_N @ effect_NN @ residual_N - np.trace(product_NN))
            found[name] = (score, float((product_NN * product_NN.T).sum()))
        return found

    def draw_launch_variances(self, programs: Mapping[str, float], belief: Belief) -> None:
        """Estimate each cell's variance across launches, drawn towards its program's."""
        raw_C, freedom_C = self.launch_evidence()
        prior_C = np.array([programs[program] for program in self.programs])
        self.freedoms = belief.launch_freedom + freedom_C
        drawn_C = (belief.launch_freedom * prior_C + freedom_C * raw_C) / self.freedoms
        self.variances = np.maximum(drawn_C, np.maximum(self._least_C, LEAST_VARIANCE))


def _fading(time_N: np.ndarray, fading_s: float) -> np.ndarray:
    """Correlation of the states at each two times."""
    return np.asarray(np.exp(-np.abs(np.subtract.outer(time_N, time_N)) / fading_s))


def _evidence(variance: np.ndarray, score: np.ndarray, information: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fisher's scoring step for variances, and the degrees of freedom that the information is worth."""
    freedom = information * variance**2
    knows = freedom > LEAST_FREEDOM
    step = np.divide(score, information, out=np.zeros_like(score), where=knows)
    return np.maximum(0.0, variance + step), np.where(knows, freedom, 0.0)


def fit(requests: Sequence[Sequence[Observation]], belief: Belief = Belief()) -> list[Request]:
    """Fit the model to the launches of several requests, which share what is known of the variances.

    Raises:
        ValueError: cells of a request that no block connects.
    """
    with threadpool_limits(1, user_api="blas"):  # the matrices are small: threads would only wait for one another
        return _fit(requests, belief) if requests else []


def _fit(requests: Sequence[Sequence[Observation]], belief: Belief) -> list[Request]:
    fitted = [Request(observations, belief.fading_s) for observations in requests]
    programs = sorted({program for request in fitted for program in request.programs})
    launch = dict.fromkeys(programs, belief.launch**2)
    believed = {STATE: belief.state**2, JOLT: belief.jolt**2}
    effects = {(kind, name): (variance, belief.freedom) for kind, variance in believed.items() for name in programs}
    for _ in range(MAX_STEPS):
        before = _variances(fitted, effects)
        for request in fitted:
            request.estimate(effects)
            request.draw_launch_variances(launch, belief)
        effects = {
            name: each
            for kind in believed
            for name, each in _drawn(fitted, effects, kind, believed[kind], belief).items()
        }
        launch = _launch_variances(fitted, programs, belief)
        if np.max(np.abs(np.log(_variances(fitted, effects) / before))) < CONVERGED:
            break
    for request in fitted:
        request.estimate(effects)
    squares, freedoms = zip(*(request.block_evidence() for request in fitted), strict=True)
    freedom = belief.block_freedom + sum(freedoms)
    for request in fitted:
        request.block_state = ((belief.block_freedom * belief.block**2 + sum(squares)) / freedom, freedom)
    return fitted


def _variances(fitted: Sequence[Request], effects: Mapping[Effects, tuple[float, float]]) -> np.ndarray:
    """All variances that are estimated."""
    return np.concatenate([[value for value, _ in effects.values()], *(request.variances for request in fitted)])


def _drawn(
    fitted: Sequence[Request],
    effects: Mapping[Effects, tuple[float, float]],
    kind: str,
    believed: float,
    belief: Belief,
) -> dict[Effects, tuple[float, float]]:
    """For each program, the variance of one kind of effect and its degrees of freedom.

    It is drawn towards the variance of all programs, and that towards `believed`.
    """
    evidence = [request.evidence() for request in fitted]
    raw: dict[Effects, tuple[float, float]] = {}
    for name, (variance, _) in effects.items():
        if name[0] == kind:
            score, information = np.sum([seen[name] for seen in evidence if name in seen], axis=0)
            (value,), (freedom,) = _evidence(*map(np.atleast_1d, (np.float64(variance), score, information)))
            raw[name] = (float(value), float(freedom))
    weight = belief.freedom + sum(freedom for _, freedom in raw.values())
    common = (belief.freedom * believed + sum(value * freedom for value, freedom in raw.values())) / weight
    # What is known of all programs tells of one of them no more than their own differences allow.
    lent = 1 / (1 / belief.program_freedom + 1 / weight)
    return {
        name: (max((lent * common + freedom * value) / (lent + freedom), LEAST_VARIANCE), lent + freedom)
        for name, (value, freedom) in raw.items()
    }


def _launch_variances(fitted: Sequence[Request], programs: Sequence[str], belief: Belief) -> dict[str, float]:
    """For each program, the typical variance across launches of its cells, drawn towards that of all cells."""
    weights: dict[str, float] = dict.fromkeys(programs, 0.0)
    sums: dict[str, float] = dict.fromkeys(programs, 0.0)
    for request in fitted:
        for program, variance, freedom in zip(request.programs, request.variances, request.freedoms, strict=True):
            weight = 1 - belief.launch_freedom / freedom  # the share of the cell's own launches in its variance
            weights[program] += weight
            sums[program] += weight * math.log(variance)
    common = (BELIEF_CELLS * math.log(belief.launch**2) + sum(sums.values())) / (BELIEF_CELLS + sum(weights.values()))
    return {name: math.exp((BELIEF_CELLS * common + sums[name]) / (BELIEF_CELLS + weights[name])) for name in programs}
