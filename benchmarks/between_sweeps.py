"""Whole sweeps of one machine, hours apart: do they agree, and could their intervals be narrower?

For each two sweeps: how many verdicts that both decide contradict each other, and how often the difference of two
ratios lies within the half-widths of both intervals, added in squares, as 95 % should, and at one thread in how many
cells the intervals meet. The same is then asked of intervals that are narrowed, all by one factor, until their median
half-width near the best is 3 %. The cells near the best are within 25 % of the fastest of their request.

For each pick of a sweep that ends in a winner, by task and number of threads: how much slower the winner is in the
other sweep than the fastest of the deployments that it was chosen among.

At most 2 % of the verdicts may contradict each other, and no winner may be slower than the tolerance allows. The other
figures have no bound here: cells of one request and program move together, so two sweeps have some 24 independent
differences.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

import instrument

from bench.api.loss_units import AllowedLoss
from bench.decisions.constraints import Constraints
from bench.decisions.pick import Chooser
from bench.decisions.standing import WINNER, Standing
from bench.measure import stats
from bench.measure.questions import Aims
from bench.records import folder, ranking
from bench.records.folder import Results
from bench.records.rows import Row

NEAR = 1.25
NARROW = 0.03
MOST_CONTRADICTING = 0.02
TOLERANCE = Aims().regret
DECIDED = (stats.FASTER, stats.SLOWER)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sweep:
    """The ratios of a sweep.

    Attributes:
        rows: the timed cells by path, with their verdicts.
        near: paths of the cells near the best.
        half_width: median half-width of the intervals near the best, on the log scale.
    """

    rows: dict[str, Row]
    near: frozenset[str]
    half_width: float


def sweep_of(results: Results) -> Sweep:
    """The ratios of stored results."""
    rows: dict[str, Row] = {}
    near: set[str] = set()
    for group in ranking.select(results.rows).groups:
        ratios = {row.cell: row.ratio for row in group.rows if ranking.is_ranked(row) and row.ratio is not None}
        timed = {row.cell: row for row in group.rows if row.cell in ratios and row.verdict}
        near |= {cell for cell in timed if ratios[cell] <= NEAR * min(ratios.values())}
        rows |= timed
    if not near:
        raise SystemExit(f"no cell of {results.folder} was compared")
    return Sweep(rows=rows, near=frozenset(near), half_width=statistics.median(half_width(rows[cell]) for cell in near))


def standings(results: Results) -> dict[tuple[str, int], Standing]:
    """The outcome of the pick of each task and number of threads, at the default constraints and tolerance."""
    constraints, outcomes = Constraints(max_metric_loss=AllowedLoss()), {}
    for task, threads in sorted({(row.task, row.threads) for row in results.rows}):
        rows = [row for row in results.rows if (row.task, row.threads, row.batch) == (task, threads, 1)]
        if rows:
            outcomes[task, threads] = Chooser(results.measurements, rows, constraints).standing(TOLERANCE)
    return outcomes


def excess_of_winner(winner: Standing, other: Standing) -> float:
    """Share by which a sweep's winner is slower in another sweep than the fastest of those that it was chosen among.

    Infinite where the winner was not timed there. A cell whose graph another cell has counts as that cell.
    """
    assert winner.shipped is not None
    same = {row.cell: row.same_as for row in other.group.rows if row.same_as}
    among = {same.get(row.cell, row.cell) for row in winner.qualified.rows}
    ratios = {row.cell: row.ratio for row in other.group.rows if row.ratio is not None and row.cell in among}
    own = ratios.get(same.get(winner.shipped.cell, winner.shipped.cell), math.inf)
    return own / min(ratios.values()) - 1 if ratios else math.inf


def half_width(row: Row) -> float:
    """Half-width of a ratio's interval, on the log scale."""
    assert row.ratio_low is not None
    assert row.ratio_high is not None
    return math.log(row.ratio_high / row.ratio_low) / 2


def within(first: Sweep, second: Sweep, cells: Iterable[str], narrow_to: float | None = None) -> float:
    """The share of cells whose two ratios differ by no more than both half-widths, added in squares.

    Args:
        narrow_to: median half-width near the best to which the intervals of both sweeps are scaled; None leaves them.
    """
    scales = [narrow_to / sweep.half_width if narrow_to else 1.0 for sweep in (first, second)]
    inside = []
    for cell in cells:
        rows = [sweep.rows[cell] for sweep in (first, second)]
        widths = [scale * half_width(row) for scale, row in zip(scales, rows, strict=True)]
        inside.append(abs(_log_difference(*rows)) <= math.hypot(*widths))
    return statistics.mean(inside)


def meeting(first: Sweep, second: Sweep) -> tuple[int, int]:
    """Of how many cells at one thread the intervals of both ratios meet, and the number of such cells."""
    pairs = [
        (first.rows[cell], second.rows[cell])
        for cell in first.rows.keys() & second.rows.keys()
        if first.rows[cell].threads == 1
    ]
    met = sum(abs(_log_difference(*pair)) <= sum(map(half_width, pair)) for pair in pairs)
    return met, len(pairs)


def contradicting(first: Sweep, second: Sweep) -> tuple[int, int]:
    """How many verdicts contradict each other, of how many that both sweeps decide.

    `faster` contradicts `slower`; `noise` says that a difference is below the margin, and contradicts neither.
    """
    pairs = [(first.rows[cell].verdict, second.rows[cell].verdict) for cell in first.rows.keys() & second.rows.keys()]
    decided = [pair for pair in pairs if set(pair) <= set(DECIDED)]
    return sum(one != other for one, other in decided), len(decided)


def _log_difference(first: Row, second: Row) -> float:
    assert first.ratio is not None
    assert second.ratio is not None
    return math.log(second.ratio / first.ratio)


def judge(sweeps: Sequence[Sweep]) -> list[str]:
    """Print the figures of each two sweeps, and return what does not hold."""
    failures = []
    for (number, first), (other, second) in itertools.combinations(enumerate(sweeps, 1), 2):
        both = first.rows.keys() & second.rows.keys()
        near = both & (first.near | second.near)
        if not near:
            raise SystemExit(f"sweeps {number} and {other} share no cell near the best")
        wrong, decided = contradicting(first, second)
        apart = [_log_difference(first.rows[cell], second.rows[cell]) for cell in near]
        rms = math.sqrt(statistics.mean(difference**2 for difference in apart))
        print(
            f"{number} and {other}: {wrong} of {decided} verdicts contradict; within both half-widths "
            f"{within(first, second, both):.1%} of {len(both)} cells, {within(first, second, near):.1%} of {len(near)} "
            f"near the best, whose ratios differ by {rms:.1%} (root mean square); with intervals narrowed to "
            f"{NARROW:.0%}: {within(first, second, both, NARROW):.1%} and {within(first, second, near, NARROW):.1%}"
        )
        print(f"{number} and {other}: at one thread, intervals meet in %d of %d cells" % meeting(first, second))
        if wrong > MOST_CONTRADICTING * decided:
            failures.append(f"{number} and {other} contradict each other")
    return failures


def judge_picks(sweeps: Sequence[dict[tuple[str, int], Standing]]) -> list[str]:
    """Print each winner's excess in every other sweep, and return the winners that are slower than the tolerance."""
    failures = []
    for (number, first), (other, second) in itertools.permutations(enumerate(sweeps, 1), 2):
        winners = {request: each for request, each in first.items() if each.outcome == WINNER}
        print(f"{number}: {len(winners)} of {len(first)} picks end in a winner, slower than the best of {other} by:")
        for (task, threads), winner in winners.items():
            if (task, threads) not in second:
                continue
            excess = excess_of_winner(winner, second[task, threads])
            print(f"  {excess:.1%}  {task} at {threads} thread(s)")
            if excess > TOLERANCE:
                failures.append(f"the winner of {task} at {threads} thread(s) in {number} is slower in {other}")
    return failures


def main() -> None:
    """Read the sweeps and print a line for each, and then what each two of them say of one another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="folders of results, two or more")
    arguments = parser.parse_args()
    stored = [folder.read(results) for results in arguments.results]
    sweeps = [sweep_of(results) for results in stored]
    for number, (results, sweep) in enumerate(zip(arguments.results, sweeps, strict=True), 1):
        print(f"{number}: {results}, median half-width near the best {sweep.half_width:.1%} of {len(sweep.near)} cells")
    instrument.finish([*judge(sweeps), *judge_picks([standings(results) for results in stored])])


if __name__ == "__main__":
    main()
