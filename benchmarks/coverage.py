"""Coverage and error rates of the statistics, in simulated sweeps of different programs on a machine that drifts.

For each scenario and number of launches: how often a ratio's 95 % interval holds the truth, how often a cell that is no
different from the baseline is called faster or slower, and how often the claims about the selected cell are false. The
last line of a scenario is of sweeps that choose their launches by their open questions, as `bench run` does. "Regret
claimed" is the share of sweeps that claim a winner with a regret of at most 5 %, "false regret" the share of these in
which it is more, and "false bound" that in which it is more than the sweep said.

All of it takes a day of one core; what was simulated is kept in a folder, and the same command goes on where it was
stopped. The rates of whole cases, a scenario and a number of launches, are kept in results/coverage.json. They
stay valid while the code that they depend on is the same, and after a change that leaves the first sweeps of the case
as they were, as a change of names does.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import inspect
import itertools
import json
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import instrument
import numpy as np
from simulation import Scenario, World

from bench.measure import comparison, corrections, ledgers, planning, rounds, selection, stats
from bench.measure.comparison import Fitted
from bench.measure.goal import Goal
from bench.measure.launch import Launch
from bench.measure.ledgers import Group, Ledger
from bench.measure.questions import Aims
from bench.pipeline import code_digests
from bench.records.store import write_atomically

ROOT = Path(__file__).parent.parent
CASES = ROOT / "results" / "coverage.json"
LEAST_COVERAGE = 0.93
MOST_FALSE = 0.05
LAUNCHES = (1, 2, 3, 6)
RACE = 0
"""Stands for the launches of a sweep that chooses them by its open questions."""
ALWAYS: tuple[Callable[..., object], ...] = (
    *(comparison.fit, selection.select, selection.selected_ratio, corrections.judge, ledgers.note),
    *(Group, Ledger, Launch),
)
"""The claims that are simulated, and what enters launches; with all that they reach, the rates depend on these."""
PART, PART_OF_RACES = 50, 10
"""Sweeps that one process simulates at a time: as many as take a few seconds, or half a minute."""
FIRST = 3
"""Sweeps of a case that are simulated again where the code has changed."""
WITHIN = 0.03
REGRET = Aims().regret
SPREAD = (0.0, 0.0, 0.0, 0.01, -0.01, 0.03, -0.03, 0.1, -0.1, 0.5, -0.5, -0.2)
ALIKE = tuple(-0.3 + 0.002 * (number % 15) for number in range(30))
FORTY = (
    *(0.0,) * 8,
    *(0.02 * step for step in (-1.5, -0.9, -0.5, -0.2, 0.2, 0.5, 0.9, 1.5)),
    *(-0.26, 0.19, -0.11, 0.04, -0.04, 0.11, -0.19, 0.26),
    *(-0.7 + 0.0075 * step for step in (5, 2, 7, 0, 4, 1, 6, 3)),
    *(-0.2 - 0.05 * step for step in (3, 6, 0, 5, 2, 7, 1, 4)),
)
"""Cells of which a fifth are no different from the baseline, a fifth nearly so, and the best eight within 5 %."""
FOURTEEN = (*(0.0,) * 4, 0.01, -0.01, 0.03, -0.03, 0.08, -0.08, -0.4, -0.42, -0.45, -0.46)


def _forty(name: str, *, state: float = 0.03, **other: Any) -> Scenario:
    """Forty cells of one request on six programs, fourteen in a race, under noise that is hardly believed in."""
    programs = (state,) * 6
    cells: dict[str, Any] = {"offsets": FORTY, "race_offsets": FOURTEEN, "num_requests": 1}
    passes: dict[str, Any] = {"num_passes": 6, "block_s": 50.0, "fading_s": 600.0}
    return Scenario(name=f"forty, {name}", programs=programs, **cells, **passes, **other)


SCENARIOS = (
    Scenario(name="quiet machine", machine=0.01, programs=(0.003, 0.003, 0.003), offsets=SPREAD),
    Scenario(name="states of 1 %", programs=(0.01, 0.01, 0.01), offsets=SPREAD),
    Scenario(name="states of 3 %", programs=(0.03, 0.03, 0.03), offsets=SPREAD),
    Scenario(name="states of 6 %", programs=(0.06, 0.06, 0.06), offsets=SPREAD),
    Scenario(name="states of 3 % that last 2 minutes", programs=(0.03, 0.03, 0.03), fading_s=120, offsets=SPREAD),
    Scenario(name="states of 3 % that last 10 minutes", programs=(0.03, 0.03, 0.03), fading_s=600, offsets=SPREAD),
    Scenario(name="states of 3 %, each request's own", programs=(0.03, 0.03, 0.03), share_states=False, offsets=SPREAD),
    Scenario(name="states of 6 %, a sweep of 2 minutes", programs=(0.06, 0.06, 0.06), block_s=12, offsets=SPREAD),
    Scenario(name="states of 3 %, a sweep of 2 minutes", programs=(0.03, 0.03, 0.03), block_s=12, offsets=SPREAD),
    Scenario(name="baseline 6 %, others 1 %", programs=(0.06, 0.01, 0.01), offsets=SPREAD),
    Scenario(name="baseline slowed in 1 of 5 blocks", shocks=0.2, offsets=SPREAD),
    Scenario(name="noisy beside quiet", launch=(0.003, 0.01, 0.003, 0.03), offsets=SPREAD),
    Scenario(name="noisy, states 6, 1, 3 %", programs=(0.06, 0.01, 0.03), launch=(0.003, 0.03, 0.01), offsets=SPREAD),
    Scenario(name="2 machines that differ by 1 %", num_places=2, place=0.01, offsets=SPREAD),
    Scenario(name="4 machines that differ by 2 %", num_places=4, place=0.02, offsets=SPREAD),
    Scenario(name="8 machines that differ by 3 %", num_places=8, place=0.03, offsets=SPREAD),
    Scenario(name="4 machines alike, states of 3 %", num_places=4, programs=(0.03, 0.03, 0.03), offsets=SPREAD),
    Scenario(name="best of 30", launch=(0.003, 0.01, 0.02), offsets=ALIKE, num_requests=1),
    _forty("as believed", launch=(0.012,), program_shock=0.014),
    _forty("launches of 3 %, uneven", launch=(0.03,), launch_spread=1.0),
    _forty("launches of 5 %", launch=(0.05,)),
    _forty("15 % of launches slow", launch=(0.012,), slow_launches=0.15, state=0.02),
    _forty("programs jump", launch=(0.02,), state=0.02, jumps=True, steal=0.15),
    _forty("launches of 6 % alone", launch=(0.06,), state=0.0),
    _forty("heavy tails", launch=(0.025,), launch_tail=3.0, program_shock=0.02, shock_tail=3.0, steal=0.1),
    _forty("programs drift", launch=(0.015,), state=0.0, drift=0.06),
    _forty("two runtimes of a package, states of 1 %", launch=(0.012,), halves=0.01),
)


@dataclasses.dataclass(kw_only=True)
class Rate:
    """How often something happened of how often it could have."""

    times: float = 0.0
    of: float = 0.0

    def add(self, times: float, of: float = 1.0) -> None:
        """Count further cases."""
        self.times += times
        self.of += of

    @property
    def share(self) -> float:
        """The rate; not a number where there was no case."""
        return self.times / self.of if self.of else math.nan


Rates = dict[str, Rate]


def judge(groups: Sequence[Group], world: World, rates: Rates) -> None:
    """Hold all claims about a sweep against the truth."""
    fits = comparison.fit([group.launched() for group in groups])
    compared = []
    for group, fitted in zip(groups, fits, strict=True):
        names = [ledger.name for ledger in group.ledgers[1:]]
        for name in names:
            found, truth = fitted.against_baseline(name), world.truth[name]
            compared.append((found, truth))
            assert found.effect is not None
            rates["covered"].add(abs(found.effect.value - truth) <= found.effect.half_width())
            rates["half-width"].add(found.effect.half_width())
            latency = fitted.latency_ns(name)
            assert latency is not None
            rates["p50 covered"].add(latency.low <= world.latency_ns(name) <= latency.high)
            rates["launches"].add(fitted.num_launches[name])
        _judge_selection(fitted, names, world, rates)
    for one, (_, truth) in zip(corrections.judge([found for found, _ in compared], margin=0.02), compared, strict=True):
        assert one is not None
        is_winner = one.verdict in (stats.FASTER, stats.SLOWER)
        rates["open"].add(one.verdict == stats.UNDECIDED)
        if truth == 0:
            rates["false winners"].add(is_winner)
        if is_winner:
            rates["false verdicts"].add(truth == 0 or (one.verdict == stats.FASTER) != (truth < 0))
        if one.verdict == stats.NOISE:
            rates["false noise"].add(abs(truth) > math.log1p(0.02))


def _judge_selection(fitted: Fitted, names: Sequence[str], world: World, rates: Rates) -> None:
    chosen = selection.select(fitted, names, within=WITHIN)
    assert chosen is not None
    best = min(world.truth[name] for name in names)
    ratio = selection.selected_ratio(fitted, chosen.first, fitted.baseline, names)
    assert ratio is not None
    rates["winner covered"].add(ratio.low <= math.exp(world.truth[chosen.first]) <= ratio.high)
    plain = fitted.against_baseline(chosen.first).ratio
    assert plain is not None
    rates["uncorrected"].add(plain.low <= math.exp(world.truth[chosen.first]) <= plain.high)
    excess = {name: math.expm1(world.truth[name] - best) for name in names}
    beyond = {name: math.expm1(world.truth[name] - world.truth[chosen.first]) for name in chosen.slower}
    claimed = {name: regret for name, regret in chosen.regrets.items() if regret <= WITHIN}
    rates["false equals"].add(any(excess[name] > regret + 1e-9 for name, regret in claimed.items()))
    rates["false slower"].add(any(share <= WITHIN for share in beyond.values()))
    tolerated = selection.select(fitted, names, within=REGRET)
    assert tolerated is not None
    if math.isfinite(regret := tolerated.regrets[tolerated.first]):  # of one launch, nothing is claimed
        rates["regret"].add(regret)
    is_claimed = tolerated.regrets[tolerated.first] <= REGRET
    rates["regret claimed"].add(is_claimed)
    if is_claimed:
        rates["false regret"].add(excess[tolerated.first] > REGRET)
        rates["false bound"].add(excess[tolerated.first] > tolerated.regrets[tolerated.first])


def sweeps(
    scenario: Scenario, launches: int, trials: int, seed: Sequence[int]
) -> Iterator[tuple[World, Sequence[Group]]]:
    """Many sweeps, which are the same for the same seed."""
    generator = np.random.default_rng(seed)
    random.seed(repr(seed))  # of the order of the launches in a round
    if not launches and scenario.race_offsets:
        scenario = dataclasses.replace(scenario, offsets=scenario.race_offsets)
    for _ in range(trials):
        world = World(scenario, generator)
        yield world, world.rounds(launches) if launches else world.race(Goal())


def run(scenario: Scenario, launches: int, trials: int, seed: Sequence[int]) -> Rates:
    """The rates of many sweeps."""
    rates: Rates = collections.defaultdict(Rate)
    for world, groups in sweeps(scenario, launches, trials, seed):
        judge(groups, world, rates)
    return dict(rates)


def first(scenario: Scenario, launches: int) -> str:
    """A digest of all that is claimed of the first sweeps of a case, to nine digits."""
    claimed: list[object] = []
    for _, groups in sweeps(scenario, launches, FIRST, (SCENARIOS.index(scenario), launches, 0)):
        fits = comparison.fit([group.launched() for group in groups])
        compared = []
        for group, fitted in zip(groups, fits, strict=True):
            names = [ledger.name for ledger in group.ledgers[1:]]
            compared += [fitted.against_baseline(name) for name in names]
            claimed += [(latency.low, latency.high) for name in names if (latency := fitted.latency_ns(name))]
            for within in (WITHIN, REGRET):
                if chosen := selection.select(fitted, names, within=within):
                    ratio = selection.selected_ratio(fitted, chosen.first, fitted.baseline, names)
                    claimed += [chosen.first, chosen.others, chosen.slower, *chosen.regrets.values(), ratio]
        claimed += [found.effect for found in compared]
        claimed += corrections.judge(compared, margin=0.02)
    digits = re.sub(r"\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.9g}", repr(claimed))
    return hashlib.sha256(digits.encode()).hexdigest()[:12]


def summed(parts: Iterable[Rates]) -> Rates:
    """The rates of all sweeps of several runs."""
    rates: Rates = collections.defaultdict(Rate)
    for part in parts:
        for name, rate in part.items():
            rates[name].add(rate.times, rate.of)
    return dict(rates)


def failures_of(scenario: Scenario, launches: int, rates: Rates) -> list[str]:
    """The rates that are not as they must be."""
    where = f"{scenario.name}, {launches or 'chosen'} launches"
    low = [name for name in ("covered", "p50 covered", "winner covered") if rates[name].share < LEAST_COVERAGE]
    of_cells = ("false winners", "false verdicts", "false noise", "false equals", "false slower")
    false = (*of_cells, "false regret", "false bound")
    high = [name for name in false if name in rates and rates[name].share > MOST_FALSE]
    return [f"{where}: {name} {rates[name].share:.3f}" for name in (*low, *high)]


def _sizes(trials: int, part: int) -> list[int]:
    """The sweeps of each part."""
    return [min(part, trials - start) for start in range(0, trials, part)]


def code(launches: int) -> str:
    """A digest of all that the rates of sweeps with so many launches depend on; races choose their launches."""
    simulated = [code_digests.of_function(each) for each in (*ALWAYS, *([rounds.measure] if launches == RACE else []))]
    functions = [inspect.getsource(function) for function in (judge, _judge_selection, sweeps, run)]
    world = (ROOT / "benchmarks" / "simulation.py").read_text(encoding="utf-8")
    here = [*functions, world, repr((SCENARIOS, WITHIN, REGRET, planning.MAX_WORKERS))]
    return hashlib.sha256("".join([*simulated, *here]).encode()).hexdigest()[:12]


def _as_json(rates: Rates) -> dict[str, Any]:
    return {name: dataclasses.astuple(rate) for name, rate in rates.items()}


def _from_json(stored: dict[str, Any]) -> Rates:
    return {name: Rate(times=times, of=of) for name, (times, of) in stored.items()}


class Kept:
    """Rates of parts that were simulated by the code as it is now, so that a script which was stopped goes on."""

    def __init__(self, folder: Path) -> None:
        self._folders = {launches: folder / code(launches) for launches in (1, RACE)}
        for each in self._folders.values():
            each.mkdir(parents=True, exist_ok=True)

    def run(self, scenario: Scenario, launches: int, trials: int, seed: Sequence[int]) -> Rates:
        """The rates of a part; see `run`."""
        name = hashlib.sha256(repr((scenario, launches, trials, seed)).encode()).hexdigest()[:16]
        file = self._folders[min(launches, 1)] / f"{name}.json"
        if not file.exists():
            write_atomically(file, json.dumps(_as_json(run(scenario, launches, trials, seed))))
        return _from_json(json.loads(file.read_text()))


class Cases:
    """Rates of whole cases, a scenario and a number of launches each, in a file.

    A case has the digest of its first sweeps, and that of the code by which they last came out so: either that by which
    all of its sweeps were simulated, or later code that gives the same.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._codes = {"launches": code(1), "race": code(RACE)}
        self._cases: dict[str, dict[str, Any]] = json.loads(file.read_text())["cases"] if file.exists() else {}

    def rates(self, scenario: Scenario, launches: int, trials: int) -> Rates | None:
        """The rates of a case that was simulated by this code, or by code that gives the same; None for another."""
        stored = self._cases.get(_name(scenario, launches, trials))
        if stored is None:
            return None
        if stored["code"] != self._code(launches):
            if stored["first"] != first(scenario, launches):
                return None
            self._put(_name(scenario, launches, trials), stored | {"code": self._code(launches)})
        return _from_json(stored["rates"])

    def keep(self, scenario: Scenario, launches: int, trials: int, rates: Rates) -> None:
        """Add a case to those in the file."""
        case = {"code": self._code(launches), "first": first(scenario, launches), "rates": _as_json(rates)}
        self._put(_name(scenario, launches, trials), case)

    def _code(self, launches: int) -> str:
        return self._codes["launches" if launches else "race"]

    def _put(self, name: str, case: dict[str, Any]) -> None:
        self._cases[name] = case
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(self._cases[name])}" for name in sorted(self._cases))
        write_atomically(self._file, f'{{"cases": {{\n{lines}\n}}}}\n')


def _name(scenario: Scenario, launches: int, trials: int) -> str:
    return f"{scenario.name}; {launches or 'race'}; {trials} sweeps"


def main() -> None:
    """Run all scenarios and print a line for each number of launches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000, help="sweeps of each scenario and number of launches")
    parser.add_argument("--only", default="", help="scenarios whose name holds this text")
    parser.add_argument("--launches", type=int, nargs="*", default=(*LAUNCHES, RACE), help="0: as the questions ask")
    parser.add_argument("--races", type=int, default=500, help="sweeps of each scenario that choose their launches")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("build/coverage"), help="keeps what was simulated")
    parser.add_argument("--cases", type=Path, default=CASES, help="keeps the rates of whole cases")
    arguments = parser.parse_args()
    failures = []
    parts, stored = Kept(arguments.folder), Cases(arguments.cases)
    with concurrent.futures.ProcessPoolExecutor(arguments.processes) as pool:
        cases: list[tuple[Scenario, int, int, Rates | list[Future[Rates]]]] = []
        chosen = [(number, each) for number, each in enumerate(SCENARIOS) if arguments.only in each.name]
        for (number, scenario), launches in itertools.product(chosen, arguments.launches):
            trials, part = (arguments.trials, PART) if launches else (arguments.races, PART_OF_RACES)
            known = stored.rates(scenario, launches, trials)
            waiting = [
                pool.submit(parts.run, scenario, launches, size, (number, launches, place))
                for place, size in enumerate(_sizes(trials, part) if known is None else [])
            ]
            cases.append((scenario, launches, trials, waiting if known is None else known))
        for scenario, launches, trials, simulated in cases:
            if isinstance(simulated, list):
                rates = summed(each.result() for each in simulated)
                stored.keep(scenario, launches, trials, rates)
            else:
                rates = simulated
            figures = "  ".join(f"{name} {rate.share:.3f}" for name, rate in rates.items())
            print(f"{_name(scenario, launches, trials):50}  {figures}", flush=True)
            failures += failures_of(scenario, launches, rates)
    instrument.finish(failures)


if __name__ == "__main__":
    main()
