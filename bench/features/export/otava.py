"""Files that Apache Otava (formerly Hunter) reads: a CSV for each cell, with a line for each run, and a configuration.

Otava looks for changes in the lines of a file. So `FOLDER/<cell>.csv` is the history of a cell, to which an export adds
a line with the time at which the cell was measured. `FOLDER/otava.yaml` names a test by each cell's path, and a group
of them by each task: `otava analyze --config-file FOLDER/otava.yaml crnn`. The ends of intervals are attributes: Otava
keeps them beside the figures, and looks for no changes in them.

Source: `CsvImporter` in `otava/importer.py`, `create_csv_test_config` in `otava/test_config.py` and `load_tests` in
`otava/config.py` of https://github.com/apache/otava, version 0.8.0. A time is a text that `dateparser` reads. The
values of a metric are numbers, and one that is missing ends the analysis of a test, so a column with gaps is no metric.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench.api import files
from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.api.printable import printable_json
from bench.features.export.figures import EXPORTED, Benchmark
from bench.report.writing import as_csv

CONFIG = "otava.yaml"
TIME, MACHINE, DIRECTION = "time", "machine", "metric_direction"
_DIRECTIONS = dict.fromkeys(EXPORTED, -1)
"""-1 for figures that are better when they are smaller; the direction of a metric is in the column `DIRECTION`."""
INTERVALS = tuple(end for column in EXPORTED.values() for end in column.ends if end)
_ATTRIBUTES = ("versions", "baseline", *INTERVALS)
COLUMNS = (TIME, MACHINE, "versions", "baseline", "num_launches", "metric_name", DIRECTION, *EXPORTED, *INTERVALS)

Line = Mapping[str, object]
"""A line of a history by the titles of its columns."""


def written(benchmarks: Iterable[Benchmark], folder: Path) -> dict[Path, str]:
    """The files to write: histories with one more line, and the configuration of all histories in the folder.

    A cell that was not measured since the last export has its line already.

    Args:
        benchmarks: the cells.
        folder: folder of the files, which need not exist.

    Raises:
        InputError: a file in the folder is no history, or is that of another machine; or a cell has no time.
    """
    by_path = {path: _read(path) for path in sorted(folder.rglob("*.csv")) if _cell_of(path, folder) is not None}
    known = {path: lines for path, lines in by_path.items() if lines}
    changed = {}
    for benchmark in benchmarks:
        path = folder / f"{benchmark.cell}.csv"
        before = known.get(path, [])
        line = _line(benchmark)
        if others := {other[MACHINE] for other in before} - {_read_back(benchmark.machine)}:
            both = f"{min(map(str, others))}, not of {benchmark.machine}"
            raise InputError(f"{path} is of {both}; name another folder with --output")
        known[path] = changed[path] = _extended(before, line)
    histories = {cell: known[path] for path in sorted(known) if (cell := _cell_of(path, folder)) is not None}
    return {path: _csv(lines) for path, lines in changed.items()} | {folder / CONFIG: config(histories, folder)}


def config(histories: Mapping[str, Sequence[Line]], folder: Path) -> str:
    """Otava's configuration for histories of cells, in YAML.

    Args:
        histories: lines of each cell's history.
        folder: folder of the histories, as its path is from where Otava will be started.
    """
    lines = [
        "# `bench export --format otava` writes this file anew.",
        "templates:",
        "  cell:",
        "    type: csv",
        f"    time_column: {TIME}",
        f"    attributes: [{', '.join(_ATTRIBUTES)}]",
        "tests:",
    ]
    groups: dict[str, list[str]] = {}
    for cell, history in histories.items():
        groups.setdefault(str(Cell.from_path(cell).task), []).append(cell)
        directions = {**_DIRECTIONS, "metric": 1 if history[-1].get(DIRECTION) in (1, "1") else -1}
        metrics = [f"{key}: {{direction: {directions[key]}}}" for key in EXPORTED if _is_complete(history, key)]
        lines += [f"  {_quoted(cell)}:", "    inherit: [cell]", f"    file: {_quoted(str(folder / cell) + '.csv')}"]
        lines += ["    metrics:", *(f"      {metric}" for metric in metrics)]
    lines.append("test_groups:")
    for task, cells in groups.items():
        lines += [f"  {_quoted(task)}:", *(f"  - {_quoted(cell)}" for cell in cells)]
    return "\n".join(lines) + "\n"


def _line(benchmark: Benchmark) -> Line:
    if not benchmark.time:
        raise InputError(
            f"the results of {benchmark.cell} do not tell when it was measured; `bench run` measures again"
        )
    figures = {figure.key: figure for figure in benchmark.figures}
    line: dict[str, object] = {
        TIME: benchmark.time,
        MACHINE: benchmark.machine,
        "versions": "; ".join(f"{name} {version}" for name, version in benchmark.versions.items()),
        "baseline": benchmark.baseline,
        "num_launches": benchmark.num_launches,
    }
    if "metric" in figures:
        line |= {"metric_name": figures["metric"].unit, DIRECTION: 1 if figures["metric"].higher_is_better else -1}
    for key, figure in figures.items():
        low, high = EXPORTED[key].ends
        line |= {
            title: value for title, value in ((key, figure.value), (low, figure.low), (high, figure.high)) if title
        }
    return line


def _extended(before: Sequence[Line], line: Line) -> list[Line]:
    """A history with a line, in the order of time: Otava takes lines as they come.

    Of a line of the same time, the columns that a user added stay.
    """
    same = next((other for other in before if _moment(other) == _moment(line)), {})
    added = {title: value for title, value in same.items() if title not in COLUMNS}
    return sorted([*(other for other in before if other is not same), {**added, **line}], key=_moment)


def _csv(lines: Sequence[Line]) -> str:
    titles = dict.fromkeys((*COLUMNS, *(title for line in lines for title in line)))  # a user may have added columns
    return as_csv(titles, [[line.get(title) for title in titles] for line in lines])


def _read(path: Path) -> list[Line]:
    try:
        reader = csv.DictReader(io.StringIO(files.read_text(path), newline=""), restval="", strict=True)
        lines: list[Line] = list(reader)
        wrong = ""
        if missing := {TIME, MACHINE} - set(reader.fieldnames or ()):
            wrong = f"it has no column {min(missing)}"
        elif any(None in line for line in lines):
            wrong = "a line has more values than there are titles"
        for line in lines if not wrong else ():
            _moment(line)
    except (OSError, csv.Error, ValueError) as error:  # of these, one that is not UTF-8
        wrong = str(error)
    if wrong:
        raise InputError(f"{path} is no history that `bench export` wrote: {wrong}; move it away")
    return lines


def _read_back(text: str) -> str:
    """A text as it reads in a history; what a spreadsheet would compute has an apostrophe."""
    (field,) = next(csv.reader(io.StringIO(as_csv([text], ()), newline="")))
    return field


def _moment(line: Line) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(str(line[TIME]))
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def _is_complete(history: Iterable[Line], key: str) -> bool:
    """Whether every line has a number in a column."""
    try:
        return all(math.isfinite(float(str(line.get(key)))) for line in history)
    except ValueError:
        return False


def _cell_of(path: Path, folder: Path) -> str | None:
    """The cell whose history a file would be; None for the file of none."""
    try:
        return Cell.from_path(path.relative_to(folder).as_posix().removesuffix(".csv")).path
    except InputError:
        return None


def _quoted(text: str) -> str:
    """A text as YAML reads it, which takes JSON's strings."""
    return printable_json(json.dumps(text, ensure_ascii=False))
