"""The tables of published experiments, from stored results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.api.errors import InputError
from bench.api.printable import printable
from bench.pipeline.experiments import EXPERIMENTS, Experiment
from bench.records import ranking
from bench.records.rows import Row
from bench.records.store import Record
from bench.report import tables, writing


def render(rows: Sequence[Row], records: Mapping[str, Record], *, format: str) -> str:
    """Every experiment's table under its title, as Markdown or for a terminal.

    Args:
        rows: the rows of any cells.
        records: the records of the same cells, by path.
        format: `md` or `table`.

    Raises:
        InputError: another format, or no cell of any experiment has a result.
    """
    if format not in ("md", "table"):
        raise InputError(
            f"the experiments' tables are printed as md or table, not {format}",
            fix=f"leave out --sweep: --format {format} prints the rows",
        )
    by_cell = {row.cell: row for row in rows}
    if not any(path in by_cell for experiment in EXPERIMENTS for path in experiment.cells):
        raise InputError("no result of the experiments; `bench run --sweep seed` measures them")
    parts = []
    for experiment in EXPERIMENTS:
        missing = [path for path in experiment.cells if path not in by_cell]
        if missing:
            text = f"No result of {', '.join(missing)}; `bench run --sweep seed` measures them.\n"
        elif experiment.columns:
            listed = ranking.listed([by_cell[path] for path in experiment.cells], columns=experiment.columns)
            text = tables.render_selection(listed, format=format)
        else:
            text = _operators(experiment, records, format)
        title = f"## {experiment.title}" if format == "md" else experiment.title.upper()
        parts.append(f"{title}\n\n{text}")
    return "\n".join(parts)


def _operators(experiment: Experiment, records: Mapping[str, Record], format: str) -> str:
    artifacts = [artifact for path in experiment.cells if (artifact := records[path].header.artifact)]
    counts = [artifact.operators for artifact in artifacts if artifact.operators]
    if len(counts) < len(experiment.cells):
        return "One of the two could not be made: see `bench show`.\n"
    before, after = counts
    lines = [
        (printable(name), before.get(name, 0), after.get(name, 0))
        for name in sorted({*before, *after}, key=str.casefold)
    ]
    lines += [("all", sum(before.values()), sum(after.values()))]
    sizes = [artifact.size_bytes / 1e6 for artifact in artifacts]
    texts = [
        (name, f"{number:,}", f"{other:,}", f"{other - number:+,}" if other != number else "")
        for name, number, other in lines
    ]
    texts.append(("file (MB)", f"{sizes[0]:.2f}", f"{sizes[1]:.2f}", f"{sizes[1] - sizes[0]:+.2f}"))
    return writing.plain(("operator", "before", "after", "change"), texts, format=format)
