"""The joint estimate of all levels and variances of the model of the measurement, over all requests of a sweep.

The variances of states, shocks and launches are estimated by restricted maximum likelihood. Few launches tell little of
a variance, so that of each cell is drawn towards those of its request and of its program, these towards that of all
cells, and all towards what such machines have shown. Shocks have the long tails of Student's t: in most blocks they
are small, and in some ten per cent and more.

Sources: Patterson and Thompson 1971, doi 10.1093/biomet/58.3.545 (restricted maximum likelihood); Smyth 2004, doi
10.2202/1544-6115.1027 (variances drawn towards each other); Lange, Little and Taylor 1989, doi 10.2307/2290063
(Student's t as a weight for each effect).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
from scipy import linalg, sparse

from bench.measure import variances
from bench.measure.components import Components, errors_of
from bench.measure.fixed_point import Mixture
from bench.measure.prior import Prior
from bench.measure.runtime_effects import SHOCK, Program, by_count
from bench.measure.stats import Effect
from bench.measure.variances import Evidence, Variance

MAX_STEPS = 100
_CONVERGED = 5e-4  # largest relative change of a variance in a step
LEAST_SHARE = 0.2  # of the information to be expected, where launches agree better than their variance lets expect
_LEAST_VARIANCE = 1e-8  # of anything: 0.01 %
_LEAST_INFORMATION = 1e-9  # about a launch by all others, over that of its own level
STATE, OWN, MACHINE = "state", "own state", "machine"
Effects = tuple[str, str]
"""A kind of effect, `STATE`, `OWN`, `SHOCK` or `MACHINE`, and the name of the program."""
_MOST_STEP = 0.3  # largest change of the logarithm of a variance across launches in a step


@dataclasses.dataclass(frozen=True, kw_only=True)
class Observation:
    """The level of one launch.

    Attributes:
        cell: path of the cell.
        program, runtime: what the machine's states act on, see `comparison.Series`.
        block: identifier of the block.
        time_s: when it ran, in seconds from any origin.
        level: natural logarithm of the latency in nanoseconds.
        variance: of `level` by the passes of the launch alone; the variance across launches is never taken as less.
        place: name of the machine that it ran on, where several of one kind share the work.
        lost_share: share of its time that it lost to other programs and other virtual machines.
    """

    cell: str
    program: str
    runtime: str = ""
    block: Hashable
    time_s: float
    level: float
    variance: float
    place: str = ""
    lost_share: float = 0.0


class Joint:
    """The launches of all requests, and the estimates at the present variances.

    Raises:
        ValueError: some cells of a request never ran in a block that connects them with the others.
    """

    def __init__(self, requests: Sequence[Sequence[Observation]], prior: Prior) -> None:
        self._prior = prior
        everything = [(number, seen) for number, observations in enumerate(requests) for seen in observations]
        cells = sorted({(number, seen.cell) for number, seen in everything})
        program_of = {(number, seen.cell): seen.program for number, seen in everything}
        blocks = list(dict.fromkeys((number, seen.block) for number, seen in everything))
        self.cells = [cell for _, cell in cells]
        self.request_C = np.array([number for number, _ in cells])
        self.programs = [program_of[cell] for cell in cells]
        self.cell_N = _positions(cells, ((number, seen.cell) for number, seen in everything))
        self.block_N = _positions(blocks, ((number, seen.block) for number, seen in everything))
        runtimes = sorted({seen.runtime for _, seen in everything})
        self._runtime_N = _positions(runtimes, (seen.runtime for _, seen in everything))
        self.level_N = np.array([seen.level for _, seen in everything])
        self._request_B = np.array([number for number, _ in blocks])
        time_N = np.array([seen.time_s for _, seen in everything])
        self._time_B = np.array([time_N[self.block_N == block].min() for block in range(len(blocks))])
        machine_of = {(number, seen.block): seen.place for number, seen in everything}
        self.machines = sorted(set(machine_of.values()))
        self._machine_B = _positions(self.machines, (machine_of[block] for block in blocks))
        self._believed = {STATE: prior.state**2, OWN: prior.own_state**2, SHOCK: prior.shock**2}
        if len(self.machines) > 1:  # one machine's results are of that machine
            self._believed[MACHINE] = prior.machine**2
        # The first block of each request is the origin of its levels.
        is_later_B = np.diff(self._request_B, prepend=-1) == 0
        self._later_B = np.flatnonzero(is_later_B)
        of_block_N = (len(cells) + np.cumsum(is_later_B) - 1)[self.block_N]
        later_N = np.flatnonzero(is_later_B[self.block_N])
        rows = np.append(self.cell_N, of_block_N[later_N])
        columns = np.append(np.arange(len(everything)), later_N)
        design_EN = sparse.csc_array((np.ones(len(rows)), (rows, columns)))
        if np.linalg.matrix_rank((design_EN @ design_EN.T).toarray(), hermitian=True) < design_EN.shape[0]:
            raise ValueError("no block connects all cells")
        self._programs = {name: self._program(name, design_EN) for name in sorted(set(self.programs))}
        # What a launch lost explains some of the noise of its passes, which then says less of the cell's launches.
        self.lost_N = (prior.lost * np.array([seen.lost_share for _, seen in everything]) ** 2) ** 2
        passes_N = np.maximum(np.array([seen.variance for _, seen in everything]) - self.lost_N, 0.0)
        least_C = np.bincount(self.cell_N, passes_N) / np.bincount(self.cell_N)
        self._floor_C = np.maximum(least_C, _LEAST_VARIANCE)
        self.variances = np.maximum(self._floor_C, prior.launch**2)
        self._believed_CC = self.alike(prior)
        self._draw_launch_variances(*np.zeros((3, len(cells))))
        self.effects = {
            (kind, name): Variance(value=variance, freedom=prior.freedom)
            for kind, variance in self._believed.items()
            for name in self._programs
        }
        self.block_state = Variance(value=0.0, freedom=1.0)
        self.num_steps, self.has_converged = 0, False

    def alike(self, prior: Prior) -> np.ndarray:
        """Covariance of the logarithms of the cells' variances across launches before any launch, by a prior."""
        program_C = np.array(self.programs)
        return 4 * (  # the variance of a logarithm of a variance, which is twice that of a standard deviation
            prior.launch_common**2
            + prior.launch_request**2 * np.equal.outer(self.request_C, self.request_C)
            + prior.launch_program**2 * np.equal.outer(program_C, program_C)
            + prior.launch_own**2 * np.eye(len(self.cells))
        )

    def _program(self, name: str, design_EN: sparse.csc_array) -> Program:
        cells_c = np.flatnonzero(np.array([program == name for program in self.programs]))
        members_n = np.flatnonzero(np.isin(self.cell_N, cells_c))
        # A shock is that of a block and of a runtime.
        num_runtimes = self._runtime_N.max() + 1
        shared_n = self.block_N[members_n] * num_runtimes + self._runtime_N[members_n]
        order_n = np.argsort(shared_n, kind="stable")
        members_n = members_n[order_n]
        shared_b, of_n = np.unique(shared_n[order_n], return_inverse=True)
        blocks_b = shared_b // num_runtimes
        machine_b, request_b = self._machine_B[blocks_b], self._request_B[blocks_b]
        together_bb = np.equal.outer(machine_b, machine_b).astype(float)
        estimates_e = np.unique(design_EN[:, members_n].indices)
        fading_bb = together_bb * _fading(self._time_B[blocks_b], self._prior.fading_s)
        kernels = {
            STATE: fading_bb,
            OWN: fading_bb * np.equal.outer(request_b, request_b),
            SHOCK: np.eye(len(blocks_b)),
            MACHINE: together_bb,
        }
        return Program(
            members_n=members_n,
            cells_c=cells_c,
            of_cells=by_count(np.searchsorted(cells_c, self.cell_N[members_n])),
            block_n=of_n,
            first_b=np.flatnonzero(np.diff(of_n, prepend=-1)),
            estimates_e=estimates_e,
            design_en=design_EN[:, members_n].tocsr()[estimates_e],
            kernels={kind: kernels[kind] for kind in self._believed},
            machine_b=machine_b,
        )

    def fit(self) -> None:
        """Estimate the variances, and the levels given these; `has_converged` tells whether they came to rest."""
        mixture = Mixture()
        for self.num_steps in range(1, MAX_STEPS + 1):
            before = self._logarithms()
            self._step()
            after = self._logarithms()
            self.has_converged = bool(np.max(np.abs(after - before)) < _CONVERGED)
            if self.has_converged:
                break
            self._start_from(mixture.next_start(before, after))
        self._estimate()
        self._estimator_EN = self._estimator()
        self._estimate_blocks()

    def _step(self) -> None:
        """Estimate the levels, and bring the variances nearer to what residuals and priors make of them."""
        self._estimate()
        self._draw_launch_variances(*self.launch_evidence())
        evidence = self.effect_evidence()
        for kind in self._believed:
            self.effects |= self._drawn(kind, evidence)
        for name, program in self._programs.items():
            program.weigh_shocks(self.effects[SHOCK, name].value, self._prior.shock_tail)

    def _logarithms(self) -> np.ndarray:
        """Of all variances: of effects, of launches, and of each shock."""
        shocks = [np.diag(program.kernels[SHOCK]) for program in self._programs.values()]
        return np.log(np.concatenate([[effect.value for effect in self.effects.values()], self.variances, *shocks]))

    def _start_from(self, log_V: np.ndarray) -> None:
        """Take all variances from their logarithms."""
        of_effects, of_launches, of_shocks = np.split(np.exp(log_V), np.cumsum([len(self.effects), len(self.cells)]))
        effects = zip(self.effects.items(), of_effects, strict=True)
        self.effects = {key: dataclasses.replace(effect, value=float(value)) for (key, effect), value in effects}
        self.variances = np.maximum(of_launches, self._floor_C)
        for program in self._programs.values():
            own_b, of_shocks = np.split(of_shocks, [len(program.first_b)])
            np.fill_diagonal(program.kernels[SHOCK], own_b)

    def _estimate(self) -> None:
        """Estimate the levels, given the variances, by generalized least squares."""
        precisions, weighted = {}, {}
        num_estimates = len(self.cells) + len(self._later_B)
        normal_EE, sum_E = np.zeros((num_estimates, num_estimates)), np.zeros(num_estimates)
        for name, program in self._programs.items():
            kernels = program.kernels.items()
            effect_bb = np.sum([self.effects[kind, name].value * kernel_bb for kind, kernel_bb in kernels], axis=0)
            members_n = program.members_n
            precisions[name] = program.weigh(effect_bb, self.variances[self.cell_N[members_n]] + self.lost_N[members_n])
            weighted[name] = precisions[name].times(program.design_ne)
            normal_EE[np.ix_(program.estimates_e, program.estimates_e)] += program.design_en @ weighted[name]
            sum_E[program.estimates_e] += self.level_N[members_n] @ weighted[name]
        covariance_EE = np.linalg.inv(normal_EE)
        estimate_E = covariance_EE @ sum_E
        for name, program in self._programs.items():
            program.note_residuals(
                precisions[name],
                weighted[name],
                covariance_EE[np.ix_(program.estimates_e, program.estimates_e)],
                self.level_N[program.members_n],
                estimate_E[program.estimates_e],
            )
        self._weighted, self._covariance_EE = weighted, covariance_EE

    def _estimator(self) -> np.ndarray:
        """The weight of each launch in each estimate, of shape (E, N)."""
        found_EN = np.empty((len(self._covariance_EE), len(self.level_N)))
        for name, program in self._programs.items():
            found_EN[:, program.members_n] = self._covariance_EE[:, program.estimates_e] @ self._weighted[name].T
        return found_EN

    def launch_evidence(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the residuals tell of the logarithm of each cell's variance across launches.

        Returns:
            The logarithm, the degrees of freedom that it is known by, and those of the curvature of the likelihood.
        """
        score_C, information_C, curvature_C = np.zeros((3, len(self.cells)))
        for program in self._programs.values():
            score_C[program.cells_c] = program.score_c * self.variances[program.cells_c]
            information_C[program.cells_c] = program.information_c
            curvature_C[program.cells_c] = program.curvature_c
        freedom_C = information_C * self.variances**2
        knows_C = freedom_C > variances.LEAST_FREEDOM
        surprise_C = np.divide(score_C, freedom_C, out=np.zeros_like(score_C), where=knows_C)
        # Launches that happen to agree tell less than is to be expected: the observed information is less.
        share_C = np.clip(1 + surprise_C, LEAST_SHARE, 1.0)
        log_C, freedom_C = np.log(self.variances) + surprise_C / share_C, np.where(knows_C, freedom_C * share_C, 0.0)
        return log_C, freedom_C, curvature_C * self.variances**2 - score_C

    def _draw_launch_variances(self, log_C: np.ndarray, freedom_C: np.ndarray, curvature_C: np.ndarray) -> None:
        """Estimate each cell's variance across launches, drawn towards those of its request and of its program."""
        self._launch_log_C, self._launch_freedom_C = log_C, freedom_C
        self._launches = variances.hierarchical(
            log_C, freedom_C, believed=self._prior.launch**2, covariance_CC=self._believed_CC
        )
        before_C = np.log(self.variances)
        # Where the likelihood is more curved than that, whole steps would swing about the answer.
        beyond_C = np.maximum(curvature_C - freedom_C, 0.0) / 2
        step_C = (self._launches.mean_C - before_C) / (1 + np.diag(self._launches.covariance_CC) * beyond_C)
        # In no larger steps than those of states and shocks, or launches would explain all before these can.
        self.variances = np.maximum(np.exp(before_C + np.clip(step_C, -_MOST_STEP, _MOST_STEP)), self._floor_C)

    def launch_variance_by_others(self, cell: int) -> Variance:
        """A cell's variance across launches as the other cells and the prior have it, without its own launches."""
        own = Evidence(log=float(self._launch_log_C[cell]), freedom=float(self._launch_freedom_C[cell]))
        return self._launches.without(cell, own)

    def effect_evidence(self) -> dict[Effects, Evidence]:
        """What the residuals tell of the variance of each program's states and shocks."""
        of = self._programs
        return {(kind, name): of[name].evidence(kind, each.value) for (kind, name), each in self.effects.items()}

    def _drawn(self, kind: str, evidence: Mapping[Effects, Evidence]) -> dict[Effects, Variance]:
        """The variance of one kind of effect, of each program."""
        drawn = variances.drawn(
            {name: evidence[kind, name] for name in self._programs},
            believed=self._believed[kind],
            prior_freedom=self._prior.freedom,
            own_freedom=self._prior.program_freedom,
        )
        return {
            (kind, name): variances.approached(variance, self.effects[kind, name].value)
            for name, variance in drawn.items()
        }

    def _block_rows(self, number: int) -> np.ndarray:
        """Rows of the estimator that belong to the blocks of a request, but for its first block, which has none."""
        return len(self.cells) + np.flatnonzero(self._request_B[self._later_B] == number)

    def shared_by_blocks(self, number: int) -> float:
        """The variance of the mean of a request's blocks over that of one of them."""
        return float(self._alike(np.flatnonzero(self._request_B == number)).mean())

    def _alike(self, blocks_b: np.ndarray) -> np.ndarray:
        """Correlation of the machine's state in each two blocks.

        Of several machines each has its own speed, too, which does not fade: then the whole state is taken as lasting.
        """
        if len(self.machines) > 1:
            return np.equal.outer(self._machine_B[blocks_b], self._machine_B[blocks_b]).astype(float)
        return _fading(self._time_B[blocks_b], self._prior.fading_s)

    def _estimate_blocks(self) -> None:
        """Estimate the variance of the machine's state from the effects of each request's blocks about their mean.

        Blocks that are near one another in time, of any request, show nearly the same state, so the sum of squares has
        Satterthwaite's degrees of freedom.
        """
        squares = 0.0
        for number in np.unique(self._request_B):
            effects_B = np.append(self._estimator_EN[self._block_rows(number)] @ self.level_N, 0.0)
            squares += float(((effects_B - effects_B.mean()) ** 2).sum())
        together_BB = np.equal.outer(self._request_B, self._request_B)
        centred_BB = np.eye(len(together_BB)) - together_BB / together_BB.sum(axis=1)
        product_BB = centred_BB @ self._alike(np.arange(len(self._time_B)))
        expected = float(np.trace(product_BB))  # of the sum of squares, in variances of one block
        prior, freedom = self._prior.block_freedom, 0.0
        value = prior * self._prior.block**2
        if expected > 1e-9 * len(self._time_B):  # it is 0 where each request ran on one machine
            freedom = expected**2 / float((product_BB * product_BB.T).sum())
            value += freedom * squares / expected
        self.block_state = Variance(value=value / (prior + freedom), freedom=prior + freedom)

    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """How far each launch's level is from what all the others let expect, and the variance of that, of shape (N,).

        The variance has no bound where the others tell nothing. Source: Haslett and Hayes 1998, doi
        10.1111/1467-9868.00128.
        """
        residual_N, diagonal_N = np.empty((2, len(self.level_N)))
        for program in self._programs.values():
            residual_N[program.members_n], diagonal_N[program.members_n] = program.residual_n, program.diagonal_n
        diagonal_N = np.maximum(diagonal_N, _LEAST_INFORMATION / self.variances[self.cell_N])
        return residual_N / diagonal_N, 1 / diagonal_N

    def of_machines(self) -> dict[tuple[str, str], Effect]:
        """For each program and each of several machines, what this machine does to it beside the others of its kind.

        Launches without the name of a machine have no part. It is that part of the program's levels which is not the
        machine's speed: the best linear unbiased prediction of Henderson 1975, doi 10.2307/2529430, and its error.
        """
        effects = {}
        for name, program in self._programs.items() if MACHINE in self._believed else ():
            residual_bb, residual_b = program.residual_bb, program.residual_b
            effect = self.effects[MACHINE, name]
            for number in (number for number in np.unique(program.machine_b) if self.machines[number]):
                own_b = program.machine_b == number
                known = effect.value * float(residual_bb[np.ix_(own_b, own_b)].sum())  # of its variance, a share
                effects[name, self.machines[number]] = Effect(
                    value=effect.value * float(residual_b[own_b].sum()),
                    error=math.sqrt(effect.value * max(0.0, 1 - known)),
                    freedom=effect.freedom,
                )
        return effects

    def components(self, cells: slice, number: int) -> Components:
        """The estimates of a request whose cells have these positions among all cells."""
        num_blocks = int((self._request_B == number).sum())
        mean_N = self._estimator_EN[self._block_rows(number)].sum(axis=0) / num_blocks
        weights_RN = np.vstack([self._estimator_EN[cells], mean_N])
        order_N = np.argsort(self.cell_N, kind="stable")
        bounds = np.cumsum(np.bincount(self.cell_N))[:-1]
        parts = []
        for variance, own_N in zip(self.variances, np.split(order_N, bounds), strict=True):
            parts.append(variance * weights_RN[:, own_N] @ weights_RN[:, own_N].T)
        if self.lost_N.any():
            parts.append(self.lost_N * weights_RN @ weights_RN.T)
        num_launches, effects = len(parts), []
        # The weights that stand for Student's t are estimates themselves; its information about a mean is less.
        tail = self._prior.shock_tail
        factors = dict.fromkeys(self._believed, 1.0) | {SHOCK: (tail + 3) / (tail + 1)}
        for name, program in self._programs.items():
            own_Rb = program.in_blocks(weights_RN[:, program.members_n].T).T
            for kind, kernel_bb in program.kernels.items():
                effect = self.effects[kind, name]
                effects.append((kind, effect))
                parts.append(factors[kind] * effect.value * own_Rb @ kernel_bb @ own_Rb.T)
        of_lost = np.zeros((num_launches - len(self.cells),) * 2)  # what was lost is known
        errors = (self._launches.covariance_CC, of_lost, errors_of(effects))
        before = variances.before_any(self._prior.freedom, self._prior.program_freedom)
        believed = (self._believed_CC, of_lost, errors_of([(kind, before) for kind, _ in effects]))
        return Components(
            values=weights_RN @ self.level_N,
            covariances=np.array(parts),
            errors=linalg.block_diag(*errors),
            believed=linalg.block_diag(*believed),
            num_launches=num_launches,
        )


def _positions(known: Sequence[Hashable], values: Iterable[Hashable]) -> np.ndarray:
    """The position of each value among the known ones."""
    position = {value: index for index, value in enumerate(known)}
    return np.array([position[value] for value in values])


def _fading(time_N: np.ndarray, fading_s: float) -> np.ndarray:
    """Correlation of the states at each two times."""
    return np.asarray(np.exp(-np.abs(np.subtract.outer(time_N, time_N)) / fading_s))
