"""The model of the measurement: from the levels of all launches of a request to the ratio of any two cells.

    level = cell + block + state of the program + jolt of the program + launch

All are on the scale of natural logarithms. The block is the state of the machine, which slows all programs alike. The
machine also acts on programs differently: the state of a program (a runtime) is shared by all its cells and by
neighbouring blocks, of all requests, and fades over minutes; a smaller part of it belongs to one request alone. A jolt
is shared by the program's cells of one block. The launch is what differs from process to process: the layout of memory,
the placement of threads, and the noise of the passes.

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
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from bench.measure.stats import Effect

MAX_STEPS = 40
CONVERGED = 0.02  # largest relative change of a variance in a step
LEAST_VARIANCE = 1e-8  # of anything: 0.01 %
LEAST_FREEDOM = 0.02  # fewer degrees of freedom say nothing of a variance
STATE, OWN, JOLT = "state", "own state", "jolt"
Effects = tuple[str, str]
"""A kind of effect, `STATE`, `OWN` or `JOLT`, and the name of the program."""
BELIEF_CELLS = 3.0  # cells' worth of belief in the variance across launches of all programs together


@dataclasses.dataclass(frozen=True, kw_only=True)
class Belief:
    """What is believed of the variances before any launch, on the log scale.

    The figures are those of `results/reference` and of repeated runs on shared machines of two cores: launches of one
    cell differ by 0.3 to 3 %, and states of programs by 1 to 6 %.

    Attributes:
        launch: standard deviation across launches of a cell.
        launch_freedom: weight of the program's variance beside a cell's own launches, in degrees of freedom.
        state: standard deviation of a program's state, which all requests share.
        own_state: standard deviation of a program's further state, which each request has for itself.
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
    own_state: float = 0.012
    jolt: float = 0.01
    freedom: float = 1.5
    program_freedom: float = 10.0
    block: float = 0.08
    block_freedom: float = 3.0
    fading_s: float = 300.0


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
    """The cells of one request, as the fit to all requests estimates them: see `fit`.

    Attributes:
        cells: names of the cells.
    """

    def __init__(self, joint: _Joint, number: int) -> None:
        self._joint = joint
        self._number = number
        self._start = int(np.searchsorted(joint.request_C, number))
        self.cells = joint.cells[self._start : int(np.searchsorted(joint.request_C, number, side="right"))]

    @property
    def effects(self) -> Mapping[Effects, tuple[float, float]]:
        """Variances of the programs' states and jolts, with their degrees of freedom."""
        return self._joint.effects

    @property
    def variances(self) -> np.ndarray:
        """Variances across launches of the request's cells, of shape (C,)."""
        return self._joint.variances[self._start : self._start + len(self.cells)]

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
        share = self._joint.shared_by_blocks(self._number)  # of the variance of one block
        variance, freedom = self._joint.block_state
        return self._effect({self._index(cell): 1.0, -1: 1.0}, [(variance * share, freedom)])

    def control(self, cell: str) -> Effect | None:
        """Second launch over first, in the blocks that held the cell twice; None where no block did.

        Both run the same program in the same minutes, so only the launches differ.
        """
        joint, index = self._joint, self._start + self._index(cell)
        own_N = np.flatnonzero(joint.cell_N == index)
        pairs = [
            pair for block in np.unique(joint.block_N[own_N]) if len(pair := own_N[joint.block_N[own_N] == block]) == 2
        ]
        if not pairs:
            return None
        return Effect(
            value=float(np.mean([joint.level_N[second] - joint.level_N[first] for first, second in pairs])),
            error=math.sqrt(2 * float(joint.variances[index]) / len(pairs)),
            freedom=float(joint.freedoms[index]),
        )

    def _index(self, cell: str) -> int:
        if cell not in self.cells:
            raise KeyError(cell)
        return self.cells.index(cell)

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

        A part belongs to a cell's launches, a program's states or its jolts.

        Returns:
            The levels of the cells and the mean of the blocks, of shape (R,); the parts of their covariance, of shape
            (P, R, R); and the degrees of freedom of each part's variance, of shape (P,).
        """
        return self._joint.components(slice(self._start, self._start + len(self.cells)), self._number)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Program:
    """The launches of one program, and how its effects are shared by them.

    Attributes:
        members_n: indices of the program's launches.
        is_block_nb: whether a launch ran in each of the program's blocks.
        kernels: by kind of effect, the correlation of the effects of each two blocks.
    """

    members_n: np.ndarray
    is_block_nb: np.ndarray
    kernels: Mapping[str, np.ndarray]


class _Joint:
    """The launches of all requests, and the estimates at the present variances.

    Raises:
        ValueError: some cells of a request never ran in a block that connects them with the others.
    """

    def __init__(self, requests: Sequence[Sequence[Observation]], belief: Belief) -> None:
        self._belief = belief
        everything = [(number, seen) for number, observations in enumerate(requests) for seen in observations]
        cells = sorted({(number, seen.cell) for number, seen in everything})
        program_of = {(number, seen.cell): seen.program for number, seen in everything}
        blocks = list(dict.fromkeys((number, seen.block) for number, seen in everything))
        self.cells = [cell for _, cell in cells]
        self.request_C = np.array([number for number, _ in cells])
        self.programs = [program_of[cell] for cell in cells]
        self.cell_N = _positions(cells, ((number, seen.cell) for number, seen in everything))
        self.block_N = _positions(blocks, ((number, seen.block) for number, seen in everything))
        self.level_N = np.array([seen.level for _, seen in everything])
        self._request_B = np.array([number for number, _ in blocks])
        time_N = np.array([seen.time_s for _, seen in everything])
        self._time_B = np.array([time_N[self.block_N == block].min() for block in range(len(blocks))])
        # The first block of each request is the origin of its levels.
        self._later_B = np.flatnonzero(np.diff(self._request_B, prepend=-1) == 0)
        self._design_NE = np.hstack(
            [np.equal.outer(self.cell_N, np.arange(len(cells))), np.equal.outer(self.block_N, self._later_B)]
        ).astype(float)
        if np.linalg.matrix_rank(self._design_NE) < self._design_NE.shape[1]:
            raise ValueError("no block connects all cells")
        self._programs = {name: self._program(name) for name in sorted(set(self.programs))}
        passes_N = np.array([seen.variance for _, seen in everything])
        self._least_C = np.bincount(self.cell_N, passes_N) / np.bincount(self.cell_N)
        self.variances = np.maximum(self._least_C, belief.launch**2)
        self.freedoms = np.zeros(len(cells))
        self._believed = {STATE: belief.state**2, OWN: belief.own_state**2, JOLT: belief.jolt**2}
        self.effects = {
            (kind, name): (variance, belief.freedom)
            for kind, variance in self._believed.items()
            for name in self._programs
        }
        self.block_state = (0.0, 1.0)

    def _program(self, name: str) -> _Program:
        members_n = np.flatnonzero(np.array([self.programs[cell] == name for cell in self.cell_N]))
        blocks_b, of_n = np.unique(self.block_N[members_n], return_inverse=True)
        fading_bb = _fading(self._time_B[blocks_b], self._belief.fading_s)
        request_b = self._request_B[blocks_b]
        kernels = {STATE: fading_bb, OWN: fading_bb * np.equal.outer(request_b, request_b), JOLT: np.eye(len(blocks_b))}
        is_block_nb = np.equal.outer(of_n, np.arange(len(blocks_b))).astype(float)
        return _Program(members_n=members_n, is_block_nb=is_block_nb, kernels=kernels)

    def fit(self) -> None:
        """Estimate the variances, and the levels given these."""
        launch = dict.fromkeys(self._programs, self._belief.launch**2)
        for _ in range(MAX_STEPS):
            before = self._all_variances()
            self._estimate()
            self._draw_launch_variances(launch)
            evidence = self._evidence()
            for kind in self._believed:
                self.effects |= self._drawn(kind, evidence)
            launch = self._launch_variances()
            if np.max(np.abs(np.log(self._all_variances() / before))) < CONVERGED:
                break
        self._estimate()
        self._estimate_blocks()

    def _all_variances(self) -> np.ndarray:
        return np.concatenate([[value for value, _ in self.effects.values()], self.variances])

    def _estimate(self) -> None:
        """Estimate the levels, given the variances, by generalized least squares."""
        covariance_NN = np.diag(self.variances[self.cell_N])
        for name, program in self._programs.items():
            effect_bb = sum(self.effects[kind, name][0] * kernel_bb for kind, kernel_bb in program.kernels.items())
            covariance_NN[np.ix_(program.members_n, program.members_n)] += (
                program.is_block_nb @ effect_bb @ program.is_block_nb.T
            )
        precision_NN = np.linalg.inv(covariance_NN)
        weighted_NE = precision_NN @ self._design_NE
        self._estimator_EN = np.linalg.solve(self._design_NE.T @ weighted_NE, weighted_NE.T)
        self._residual_NN = precision_NN - weighted_NE @ self._estimator_EN

    def _draw_launch_variances(self, programs: Mapping[str, float]) -> None:
        """Estimate each cell's variance across launches, drawn towards its program's."""
        residual_N = self._residual_NN @ self.level_N
        score_C = np.bincount(self.cell_N, residual_N**2 - np.diag(self._residual_NN))
        is_cell_NC = self._design_NE[:, : len(self.cells)]
        information_C = ((self._residual_NN**2 @ is_cell_NC) * is_cell_NC).sum(axis=0)
        raw_C, freedom_C = _scored(self.variances, score_C, information_C)
        prior_C = np.array([programs[program] for program in self.programs])
        self.freedoms = self._belief.launch_freedom + freedom_C
        drawn_C = (self._belief.launch_freedom * prior_C + freedom_C * raw_C) / self.freedoms
        self.variances = np.maximum(drawn_C, np.maximum(self._least_C, LEAST_VARIANCE))

    def _launch_variances(self) -> dict[str, float]:
        """For each program, the typical variance across launches of its cells, drawn towards that of all cells."""
        weight_C = 1 - self._belief.launch_freedom / self.freedoms  # the share of own launches in a cell's variance
        log_C = weight_C * np.log(self.variances)
        believed = BELIEF_CELLS * math.log(self._belief.launch**2)
        common = (believed + log_C.sum()) / (BELIEF_CELLS + weight_C.sum())
        found = {}
        for name in self._programs:
            own_C = np.array([program == name for program in self.programs])
            log = (BELIEF_CELLS * common + log_C[own_C].sum()) / (BELIEF_CELLS + weight_C[own_C].sum())
            found[name] = math.exp(log)
        return found

    def _evidence(self) -> dict[Effects, tuple[float, float]]:
        """The variance of each program's states and jolts as the residuals tell it, and degrees of freedom."""
        residual_N = self._residual_NN @ self.level_N
        found = {}
        for name, program in self._programs.items():
            member_nn = self._residual_NN[np.ix_(program.members_n, program.members_n)]
            residual_bb = program.is_block_nb.T @ member_nn @ program.is_block_nb
            residual_b = residual_N[program.members_n] @ program.is_block_nb
            for kind, kernel_bb in program.kernels.items():
                product_bb = residual_bb @ kernel_bb
                score = np.array([residual_b @ kernel_bb @ residual_b - np.trace(product_bb)])
                information = np.array([(product_bb * product_bb.T).sum()])
                (value,), (freedom,) = _scored(np.array([self.effects[kind, name][0]]), score, information)
                found[kind, name] = (float(value), float(freedom))
        return found

    def _drawn(self, kind: str, evidence: Mapping[Effects, tuple[float, float]]) -> dict[Effects, tuple[float, float]]:
        """For each program, the variance of one kind of effect and its degrees of freedom.

        It is drawn towards the variance of all programs, and that towards the belief.
        """
        own = {name: evidence[kind, name] for name in self._programs}
        weight = self._belief.freedom + sum(freedom for _, freedom in own.values())
        believed = self._belief.freedom * self._believed[kind]
        common = (believed + sum(value * freedom for value, freedom in own.values())) / weight
        # What is known of all programs tells of one of them no more than their own differences allow.
        lent = 1 / (1 / self._belief.program_freedom + 1 / weight)
        return {
            (kind, name): (max((lent * common + freedom * value) / (lent + freedom), LEAST_VARIANCE), lent + freedom)
            for name, (value, freedom) in own.items()
        }

    def _block_rows(self, number: int) -> np.ndarray:
        """Rows of the estimator that belong to the blocks of a request, but for its first block, which has none."""
        return len(self.cells) + np.flatnonzero(self._request_B[self._later_B] == number)

    def shared_by_blocks(self, number: int) -> float:
        """The variance of the mean of a request's blocks over that of one of them."""
        return float(_fading(self._time_B[self._request_B == number], self._belief.fading_s).mean())

    def _estimate_blocks(self) -> None:
        """Estimate the variance of the machine's state from the effects of the blocks about their mean."""
        squares, freedom = self._belief.block_freedom * self._belief.block**2, self._belief.block_freedom
        for number in np.unique(self._request_B):
            effects_B = np.append(self._estimator_EN[self._block_rows(number)] @ self.level_N, 0.0)
            squares += float(((effects_B - effects_B.mean()) ** 2).sum())
            freedom += len(effects_B) * (1 - self.shared_by_blocks(number))  # blocks near one another show less
        self.block_state = (squares / freedom, freedom)

    def components(self, cells: slice, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `Request._components`."""
        num_blocks = int((self._request_B == number).sum())
        mean_N = self._estimator_EN[self._block_rows(number)].sum(axis=0) / num_blocks
        weights_RN = np.vstack([self._estimator_EN[cells], mean_N])
        order_N = np.argsort(self.cell_N, kind="stable")
        bounds = np.cumsum(np.bincount(self.cell_N))[:-1]
        parts, freedoms = [], []
        for index, own_N in enumerate(np.split(order_N, bounds)):
            own_RN = weights_RN[:, own_N]
            parts.append(self.variances[index] * own_RN @ own_RN.T)
            freedoms.append(self.freedoms[index])
        for name, program in self._programs.items():
            own_Rb = weights_RN[:, program.members_n] @ program.is_block_nb
            for kind, kernel_bb in program.kernels.items():
                variance, freedom = self.effects[kind, name]
                parts.append(variance * own_Rb @ kernel_bb @ own_Rb.T)
                freedoms.append(freedom)
        return weights_RN @ self.level_N, np.array(parts), np.array(freedoms)


def _positions(known: Sequence[Hashable], values: Iterable[Hashable]) -> np.ndarray:
    """The position of each value among the known ones."""
    position = {value: index for index, value in enumerate(known)}
    return np.array([position[value] for value in values])


def _fading(time_N: np.ndarray, fading_s: float) -> np.ndarray:
    """Correlation of the states at each two times."""
    return np.asarray(np.exp(-np.abs(np.subtract.outer(time_N, time_N)) / fading_s))


def _scored(variance: np.ndarray, score: np.ndarray, information: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fisher's scoring step for variances, and the degrees of freedom that the information is worth."""
    freedom = information * variance**2
    knows = freedom > LEAST_FREEDOM
    step = np.divide(score, information, out=np.zeros_like(score), where=knows)
    return np.maximum(0.0, variance + step), np.where(knows, freedom, 0.0)


def fit(requests: Sequence[Sequence[Observation]], belief: Belief = Belief()) -> list[Request]:
    """Fit the model to the launches of several requests.

    Raises:
        ValueError: cells of a request that no block connects.
    """
    if not requests:
        return []
    with threadpool_limits(1, user_api="blas"):  # the matrices are small: threads would only wait for one another
        joint = _Joint(requests, belief)
        joint.fit()
        return [Request(joint, number) for number in range(len(requests))]
