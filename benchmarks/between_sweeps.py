"""Whole sweeps of one machine, hours apart: do they agree, and could their intervals be narrower?

For each two sweeps: how many verdicts that both decide contradict each other, and how often the difference of two
ratios lies within the half-widths of both intervals, added in squares, as 95 % should. The same is then asked of
intervals that are narrowed, all by one factor, until their median half-width near the best is 3 %. The cells near the
best are within 25 % of the fastest of their request.

At most 2 % of the verdicts may contradict each other. The other figures have no bound here: cells of one request and
program move together, so two sweeps have some 24 independent differences.
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

from bench.measure import stats
from bench.records import folder, ranking
from bench.records.rows import Row

NEAR = 1.25
NARROW = 0.03
MOST_CONTRADICTING = 0.02
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


def read(results: Path) -> Sweep:
    """The sweep of a folder of results."""
    rows: dict[str, Row] = {}
    near: set[str] = set()
    for group in ranking.select(folder.read(results).rows).groups:
        ratios = {row.cell: row.ratio for row in group.rows if ranking.is_ranked(row) and row.ratio is not None}
        timed = {row.cell: row for row in group.rows if row.cell in ratios and row.verdict}
        near |= {cell for cell in timed if ratios[cell] <= NEAR * min(ratios.values())}
        rows |= timed
    if not near:
        raise SystemExit(f"no cell of {results} was compared")
    return Sweep(rows=rows, near=frozenset(near), half_width=statistics.median(half_width(rows[cell]) for cell in near))


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
        if wrong > MOST_CONTRADICTING * decided:
            failures.append(f"{number} and {other} contradict each other")
    return failures


def main() -> None:
    """Read the sweeps and print a line for each, and then one for each two of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="folders of results, two or more")
    arguments = parser.parse_args()
    sweeps = [read(results) for results in arguments.results]
    for number, (results, sweep) in enumerate(zip(arguments.results, sweeps, strict=True), 1):
        print(f"{number}: {results}, median half-width near the best {sweep.half_width:.1%} of {len(sweep.near)} cells")
    instrument.finish(judge(sweeps))


if __name__ == "__main__":
    main()
