"""Stored results: damaged folders are read, and the tables, the comparison and the best cells are made of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.api.loss_units import AllowedLoss
from bench.decisions.best import best
from bench.decisions.sizes import families
from bench.decisions.threads import scalings, sound
from bench.features.compare import changes as compare
from bench.features.compare import render as compare_report
from bench.features.export import bmf, gha, otava
from bench.features.export.figures import benchmarks
from bench.records import folder
from bench.report import best as best_report
from bench.report import experiments, roofline, sizes, tables, threads
from fuzz import folders, mutations, workplace
from fuzz.watch import check_cells, check_printed, each

INSTRUMENTED = (
    "bench.records",
    "bench.decisions",
    "bench.report",
    "bench.features.compare",
    "bench.api.cell",
    "bench.measure.model",
)
seeds, changed = folders.seeds, mutations.of_lines
smaller = mutations.smaller_lines


def check(content: bytes) -> None:
    with workplace.folder() as path, workplace.compiled_once():
        good, results = path / "good" / "machine", path / "results" / "machine"
        for target, text in ((good, next(seeds())), (results, content)):
            target.mkdir(parents=True)
            folders.write(text, target)
        each(
            lambda: _tables(folder.read(results.parent)),
            lambda: _compared(good, results),
            lambda: _compared(results, good),
        )


def _tables(stored: folder.Results) -> None:
    rows = stored.rows
    exported = benchmarks(rows, stored.measurements)
    made: list[Callable[[], object]] = [
        lambda: _print(
            best_report.render(best(stored.measurements, rows, max_metric_loss=AllowedLoss()), format="table")
        ),
        lambda: _print(sizes.render(families(stored.measurements, rows), format="md")),
        lambda: _print(experiments.render(rows, stored.records, format="table")),
        lambda: _print(threads.render(scalings(sound(stored, rows), margin=stored.margin), format="table")),
        lambda: _print(roofline.render(rows, stored.peaks, format="md")),
        lambda: _print(bmf.render(exported)),
        lambda: _print(gha.render(exported)),
        lambda: _print("".join(otava.written(exported, stored.folder / "exported").values())),
        *(lambda format=format: _table(rows, format) for format in ("table", "md", "csv", "json", "latex")),  # type: ignore[misc]
    ]
    each(*made)


def _table(rows: object, format: str) -> None:
    text = tables.render(rows, format=format)  # type: ignore[arg-type]
    _print(text)
    if format == "csv":
        check_cells(text)


def _compared(before: Path, after: Path) -> None:
    found = compare.folders(before, after, margin=0.02, force=True)
    for format in ("table", "md", "json"):
        _print(compare_report.render(found, format=format))


def _print(text: str) -> None:
    check_printed(text)
