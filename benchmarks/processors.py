"""Published results of several processors side by side: what is fastest on each, and whether the first one's pick is.

    python benchmarks/processors.py results/reference results/search results/search_amx --into README.md

Each folder has the results of one machine. Shown is each task of which the first folder and another one have results of
`FEWEST` cells or more, at the batch and the number of threads at which the first folder has most of them: the fastest
cell on each processor, of the first folder's cells, that loses at most 1 % of its metric; how many times as fast it is
as the frameworks' defaults there; and how long the first processor's fastest cell takes there. Times of different
processors are never compared. Below the table stands how many ratios over the baseline differ between two processors:
those whose 95 % intervals are disjoint.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.api import loading
from bench.api.loss_units import AllowedLoss
from bench.decisions.best import Best, best, sources_of
from bench.decisions.constraints import TOLERANCE
from bench.measure import selection
from bench.measure.stats import Estimate
from bench.records import folder, machines, ranking
from bench.records.folder import Results
from bench.records.rows import Row
from bench.records.store import Store
from bench.report import writing
from bench.report.best import put_into
from bench.report.words import default_in_words, in_words, times_as_fast

FEWEST = 10
"""Cells of a request that two processors must both have measured."""
NAME = "processors"
"""Of the marks in a file between which the table is written."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """The results of one processor.

    Attributes:
        name: the processor with its microarchitecture, and its cores.
        stored: its results.
        rows: its rows, of the cells that count.
        fastest: by request, the fastest cell that keeps its metric; of each task, the request of the most rows.
    """

    name: str
    stored: Results
    rows: Sequence[Row]
    fastest: Mapping[ranking.Request, Best]


def side(path: Path, first: Side | None) -> Side:
    """Read a folder of results.

    Args:
        path: the folder of one machine, or a folder with that folder alone.
        first: the results of whose cells alone those of this folder count; None for all.
    """
    place = folder.machine_folder(path)
    stored = folder.stored(Store(place.parent, place.name), tasks=loading.find("models"))
    known = None if first is None else {row.cell for row in first.rows if ranking.is_timed(row)}
    rows = [row for row in stored.rows if known is None or row.cell in known]
    counts = Counter(map(_request, filter(ranking.is_ranked, rows)))
    most = _most_measured(counts) if first is None else first.fastest.keys()
    rows = [row for row in rows if counts[_request(row)] >= FEWEST and _request(row) in most]
    requests = [[row for row in rows if _request(row) == request] for request in dict.fromkeys(map(_request, rows))]
    found = [one for own in requests for one in best(stored.measurements, own, max_metric_loss=AllowedLoss())]
    (name,) = {row.machine for row in stored.rows} - {None}
    return Side(name=str(name), stored=stored, rows=rows, fastest={_request(one.row): one for one in found})


def _request(row: Row) -> ranking.Request:
    return row.task, row.batch, row.threads


def _most_measured(counts: Counter[ranking.Request]) -> set[ranking.Request]:
    """Of each task the request that has the most rows."""
    of_task: dict[str, ranking.Request] = {}
    for request, _ in counts.most_common():
        of_task.setdefault(request[0], request)
    return set(of_task.values())


def pick_there(pick: Row, there: Side) -> str:
    """How much slower a pick is on another processor than the fastest cell there, or why that is not known."""
    fastest = there.fastest[_request(pick)].row
    if fastest.cell == pick.cell:
        return "the same"
    rows = {row.cell: row for row in there.stored.rows}
    row = rows.get(pick.cell)
    if row is None:
        return "not measured"
    row = rows.get(row.same_as or "", row)
    if row.status != "ok" or row.ratio is None:
        return "cannot run" if row.status == "skipped" else row.status
    if row.fidelity == "broken":
        return "broken"
    fitted = there.stored.measurements.of(fastest.cell)
    assert fitted is not None, "the fastest cell was timed"
    timed = [one.cell for one in there.rows if _request(one) == _request(pick) and ranking.is_ranked(one)]
    over = selection.selected_ratio(fitted, fastest.cell, row.cell, timed, within=TOLERANCE)
    if over is None:
        return "not compared"
    longer = Estimate(value=1 / over.value, low=1 / over.high, high=1 / over.low)
    return f"takes {writing.interval(longer)} times as long"


def table(sides: Sequence[Side]) -> str:
    """The table of all processors, as Markdown."""
    first, *others = sides
    everywhere = [one for each in sides for one in each.fastest.values()]
    sources = sources_of(everywhere)
    faster = [f"times as fast as {default_in_words(everywhere, source)}" for source in sources]
    titles = ["task", "processor", "fastest there", *faster, "the first processor's pick there"]
    lines = []
    for request, picked in sorted(first.fastest.items()):
        beside = [each for each in others if request in each.fastest]
        for each in [first, *beside] if beside else ():
            one = each.fastest[request]
            task, batch, threads = request
            name = f"{task}, {threads} thread{'s' if threads > 1 else ''}" if each is first else ""
            name += f", batch {batch}" if name and batch > 1 else ""
            ratios = [times_as_fast(one.over.get(source)) for source in sources]
            there = "" if each is first else pick_there(picked.row, each)
            lines.append([name, each.name, in_words(one.row), *ratios, there])
    return writing.plain(titles, lines, format="md", num_names=3)


def differing(one: Side, other: Side) -> str:
    """How many ratios over the baseline differ between two processors, in a sentence."""
    rows = [{row.cell: row for row in each.rows if _has_interval(row)} for each in (one, other)]
    pairs = [(rows[0][cell], rows[1][cell]) for cell in rows[0].keys() & rows[1].keys()]
    apart = sum(a.ratio_high < b.ratio_low or b.ratio_high < a.ratio_low for a, b in pairs)  # type: ignore[operator]
    return (
        f"Of the ratios over the baseline of {len(pairs)} cells, {apart} differ between {one.name}, and {other.name}: "
        "their 95 % intervals are disjoint."
    )


def _has_interval(row: Row) -> bool:
    return ranking.is_ranked(row) and row.ratio_low is not None and row.ratio_low != row.ratio_high


def main() -> int:
    """Print the table, or write it between the marks of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="folders of results, each of one machine")
    parser.add_argument("--into", type=Path, help="Markdown file to write the table into, between its marks")
    given = parser.parse_args()
    first, *others = given.folders
    sides = [one := side(first, None), *(side(path, one) for path in others)]
    shared = {request for each in sides[1:] for request in each.fastest} & sides[0].fastest.keys()
    rows = [row for each in sides for row in each.rows if _request(row) in shared]
    sentences = [machines.headline(rows), *(differing(sides[0], each) for each in sides[1:])]
    text = f"{table(sides)}\n{writing.escape_markdown(' '.join(sentences))}\n"
    if given.into is None:
        print(text, end="")
    else:
        given.into.write_text(put_into(given.into, text, name=NAME), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
