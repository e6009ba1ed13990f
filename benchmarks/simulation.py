"""Simulated sweeps in which the truth is known: different programs on a machine whose state drifts.

A block's passes are made of the cell's true level, the state of the machine (shared by all), the state of the cell's
program, an effect of the launch and the noise of the passes. The statistics that judge them are those of real sweeps:
`rounds.measure` decides on the launches, and `comparison.fit` on the ratios.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import math
from collections.abc import Sequence
from typing import Any
from unittest import mock

import msgspec
import numpy as np

from bench.api.cell import Cell
from bench.measure import blocks, ledgers, planning, rounds
from bench.measure.block import Method, Result
from bench.measure.comparison import CELL, CONTENDER, CONTROL, REFERENCE
from bench.measure.goal import Goal
from bench.measure.launch import Launch
from bench.measure.ledgers import Group, Ledger
from bench.measure.memory import Memory
from bench.measure.subject import Request, Subject

EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
NOTHING = Request(operation=dict, arguments={})
BASE_NS = 1e7
SLOWED = 0.05
"""Share of bursts that a neighbour slows, by 20 % on average."""
SLOW_LAUNCH = math.log(1.2)
"""How much slower a slow launch is, on the log scale."""
ROUNDS = 16
"""Rounds that a race counts as where it drifts or jumps over its whole time."""
JUMP = math.log(1.15)
"""How much slower half of the programs become where the machine jumps, on the log scale."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scenario:
    """A kind of machine and of cells; standard deviations are on the log scale.

    Attributes:
        name: its name in the output.
        machine: standard deviation of the machine's state.
        programs: standard deviation of each program's state; the baseline has the first program.
        fading_s: seconds after which a state is correlated by 1 / e.
        shocks: share of the blocks in which the baseline's program is slowed by 15 %, both copies alike.
        launch: standard deviations across launches that cells have in turn, the baseline first.
        passes: standard deviation of a burst.
        num_passes: bursts of each launch of a block.
        block_s: seconds from one block to the next; those of a sweep's other requests lie between them.
        offsets: true log-ratios of the cells to the baseline, in turn.
        race_offsets: the same in a race, which takes long; None for `offsets`.
        num_requests: requests of the sweep, with cells alike.
        share_states: whether a program's state is that of all requests; otherwise each request has its own.
        num_places: machines of one kind that share the sweep, each with states of its own; a block runs on any of them.
        place: standard deviation of what each of several machines does to each program at all times.
        launch_spread: standard deviation between cells of the logarithm of their `launch`.
        launch_tail: degrees of freedom of Student's t, by which launches are distributed; None for the normal.
        slow_launches: share of the launches that are slower by `SLOW_LAUNCH`.
        program_shock: standard deviation of a shock of each program in each block, of Student's t with `shock_tail`.
        shock_tail: its degrees of freedom.
        drift: standard deviation of each program's change from the start of the sweep to its end, beside a random walk
            of 1 % a block; in a race, of as many rounds as it may have.
        jumps: whether each program becomes slower by `JUMP`, with probability one half, somewhere midway.
        steal: share of the bursts that lose time to other machines, with the long tail of Pareto.
        halves: standard deviation of the state that each half of the cells of a program has beside its program's: two
            runtimes of one package, which are one program in the model of the measurement.
    """

    name: str
    machine: float = 0.08
    programs: tuple[float, ...] = (0.01, 0.01, 0.01)
    fading_s: float = 300.0
    shocks: float = 0.0
    launch: tuple[float, ...] = (0.005,)
    passes: float = 0.03
    num_passes: int = 8
    block_s: float = 48.0
    offsets: tuple[float, ...]
    race_offsets: tuple[float, ...] | None = None
    num_requests: int = 2
    share_states: bool = True
    num_places: int = 1
    place: float = 0.0
    launch_spread: float = 0.0
    launch_tail: float | None = None
    slow_launches: float = 0.0
    program_shock: float = 0.0
    shock_tail: float = 5.0
    drift: float = 0.0
    jumps: bool = False
    steal: float = 0.0
    halves: float = 0.0

    def state_sds(self) -> tuple[float, ...]:
        """Standard deviations of the machine's state and of the programs' states, of one request after the other."""
        return (self.machine, *self.programs * (1 if self.share_states else self.num_requests))


class World:
    """A machine with its states, on which blocks run one after the other; it stands in for `run_block`."""

    def __init__(self, scenario: Scenario, random: np.random.Generator) -> None:
        self._scenario = scenario
        self._random = random
        self._numbers = itertools.count()
        self.now_s = 0.0
        shape = (scenario.num_places, len(scenario.state_sds()))
        self._states = random.normal(size=shape) * scenario.state_sds()
        self._places = scenario.place * random.normal(size=(scenario.num_places, len(scenario.programs)))
        self.truth: dict[str, float] = {}
        number = len(scenario.programs)
        self._slopes = scenario.drift * random.normal(size=number)
        self._walk = np.zeros(number)
        self._jumps = JUMP * scenario.jumps * (random.random(number) < 0.5)
        self._jump_share = random.uniform(0.2, 0.8)  # of the sweep, after which the machine jumps
        self._halves = scenario.halves * random.normal(size=(number, 2)) if scenario.halves else np.zeros((number, 2))
        self._sweep_s = math.inf
        self._launch_sd: dict[str, float] = {}

    def groups(self) -> list[Group]:
        """The groups of a sweep, with no launches yet."""
        found = []
        for request in range(self._scenario.num_requests):
            ledgers = [
                Ledger(subject=self._subject(request, number)) for number in range(len(self._scenario.offsets) + 1)
            ]
            found.append(Group(baseline=ledgers[0], ledgers=ledgers))
        return found

    def _subject(self, request: int, number: int) -> Subject:
        program = number % len(self._scenario.programs)
        runtime = f"program{program}"
        if self._scenario.halves:
            runtime += f"_{self._half(number)}"
        cell = Cell.from_path(f"toy/null/native/v{number}/{runtime}/cpu/b{request + 1}t1")
        self.truth[cell.path] = self._scenario.offsets[number - 1] if number else 0.0
        typical = self._scenario.launch[number % len(self._scenario.launch)]
        self._launch_sd[cell.path] = typical * math.exp(self._scenario.launch_spread * self._random.normal())
        subject = Subject(cell=cell, key=cell.path, environment={}, imports=NOTHING, opening=NOTHING, rss_bytes=1)
        return dataclasses.replace(subject, program=f"program{program}")

    def _half(self, number: int) -> int:
        """The half of its program's cells that a cell belongs to, which is a runtime of its own."""
        return number // len(self._scenario.programs) % 2

    def latency_ns(self, name: str) -> float:
        """The true latency of a cell in the usual state of the machine."""
        return BASE_NS * math.exp(self.truth[name] + self._scenario.slow_launches * SLOW_LAUNCH)

    def pass_time(self, seconds: float) -> None:
        """Let the states drift."""
        self.now_s += seconds
        kept = math.exp(-seconds / self._scenario.fading_s)
        news = self._random.normal(size=self._states.shape) * self._scenario.state_sds()
        self._states = kept * self._states + math.sqrt(1 - kept**2) * news
        if scale := self._scenario.halves:
            news = scale * self._random.normal(size=self._halves.shape)
            self._halves = kept * self._halves + math.sqrt(1 - kept**2) * news

    def run_block(self, baseline: Subject, subjects: Sequence[Subject], method: Method, **_: Any) -> Result:
        """A block of launches, as `bench.measure.block.run_block` returns it."""
        scenario, random = self._scenario, self._random
        self.pass_time(scenario.block_s)
        shock = 0.15 if random.random() < scenario.shocks else 0.0
        shared_P = np.cumsum(0.01 * random.normal(size=scenario.num_passes))
        block = f"block {next(self._numbers)}"
        place = random.integers(scenario.num_places)
        states, offsets = self._states[place], self._places[place] + self._program_effects()
        launches = []
        roles = [(baseline, REFERENCE), (baseline, CONTROL)] if method.has_baseline else []
        roles += [(subject, CELL if method.has_baseline else CONTENDER) for subject in subjects]
        for subject, role in roles:
            number = int(subject.cell.variant[1:])
            program = number % len(scenario.programs)
            first = 1 if scenario.share_states else 1 + (subject.cell.batch - 1) * len(scenario.programs)
            level = math.log(BASE_NS) + self.truth[subject.cell.path] + states[0] + states[first + program]
            level += offsets[program] + self._halves[program, self._half(number)]
            level += self._launch_effect(subject.cell.path) + (shock if program == 0 else 0)
            noise_P = scenario.passes * random.standard_t(3, size=scenario.num_passes) / math.sqrt(3)
            noise_P += (random.random(scenario.num_passes) < SLOWED) * random.exponential(0.2, scenario.num_passes)
            if scenario.steal:
                stolen_P = np.minimum(3.0, 0.1 * random.pareto(1.5, scenario.num_passes))
                noise_P += (random.random(scenario.num_passes) < scenario.steal) * stolen_P
            bursts = np.exp(level + shared_P + noise_P)
            launch = self._launch(block, role, baseline.cell.path, bursts)
            if scenario.num_places > 1:
                launch = msgspec.structs.replace(launch, place=f"machine {place}")
            launches.append((subject, launch))
        return Result(launches=tuple(launches), failures=())

    def _program_effects(self) -> np.ndarray:
        """What the present block does to each program beside its state, of shape (programs,)."""
        scenario, random = self._scenario, self._random
        effects = np.zeros(len(scenario.programs))
        share = self.now_s / self._sweep_s
        if scenario.program_shock:
            scale = scenario.program_shock / math.sqrt(scenario.shock_tail / (scenario.shock_tail - 2))
            effects += scale * random.standard_t(scenario.shock_tail, size=len(effects))
        if scenario.drift:
            self._walk += 0.01 * random.normal(size=len(effects))
            effects += self._walk + self._slopes * (min(share, 1.0) - 0.5)
        return effects + (self._jumps if share > self._jump_share else 0.0)

    def _launch_effect(self, name: str) -> float:
        """What one launch of a cell differs from the cell."""
        scenario, random = self._scenario, self._random
        if tail := scenario.launch_tail:
            effect = random.standard_t(tail) / math.sqrt(tail / (tail - 2))
        else:
            effect = random.normal()
        is_slow = scenario.slow_launches > 0 and random.random() < scenario.slow_launches
        return float(self._launch_sd[name] * effect + is_slow * SLOW_LAUNCH)

    def _launch(self, block: str, role: str, reference: str, bursts_ns: np.ndarray) -> Launch:
        return Launch(
            launch=str(next(self._numbers)),
            block=block,
            role=role,
            reference=reference,
            steady_ns=tuple((round(ns),) for ns in bursts_ns),
            load_ns=1,
            first_inference_ns=1,
            memory=Memory(method="kernel", phases={}),
            time=(EPOCH + datetime.timedelta(seconds=self.now_s)).isoformat(),
        )

    def rounds(self, num_launches: int) -> list[Group]:
        """A sweep with so many launches of every cell, whatever they show."""
        groups = self.groups()
        self._sweep_s = self._round_s() * num_launches
        for _ in range(num_launches):
            for group in groups:
                others = list(self._random.permutation(np.array(group.ledgers[1:], dtype=object)))
                for block in _batched(others, planning.MAX_WORKERS - 2):
                    result = self.run_block(group.baseline.subject, [ledger.subject for ledger in block], Method())
                    ledgers.note(group, result)
        return groups

    def _round_s(self) -> float:
        """Seconds that one launch of every cell takes."""
        blocks_of_request = math.ceil(len(self._scenario.offsets) / (planning.MAX_WORKERS - 2))
        return self._scenario.num_requests * blocks_of_request * self._scenario.block_s

    def race(self, goal: Goal) -> list[Group]:
        """A sweep whose launches go where a question is open."""
        groups = self.groups()
        self._sweep_s = self._round_s() * ROUNDS
        with mock.patch.object(blocks, "run_block", self.run_block):
            rounds.measure(groups, Method(), goal, keep=lambda _: None, report=lambda _: None)
        self._centre_drift()
        return groups

    def _centre_drift(self) -> None:
        """Let the truth be that of the middle of the sweep: a race may end before its programs have drifted far."""
        shift = self._slopes * (min(self.now_s / self._sweep_s, 1.0) - 1) / 2
        for path in self.truth:
            number = int(Cell.from_path(path).variant[1:])
            self.truth[path] += shift[number % len(shift)] - shift[0]


def _batched(values: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [values[start : start + size] for start in range(0, len(values), size)]
