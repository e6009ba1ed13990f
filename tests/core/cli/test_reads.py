"""Results are read and fitted once for each command, and once for each refresh of the live table."""

from __future__ import annotations

import collections
import io
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pytest
from rich.console import Console

from bench.api.cell import Cell
from bench.cli import main, progress
from bench.measure import comparison, noise
from bench.measure.comparison import Fitted, Group
from bench.measure.prior import Prior
from bench.records import folder, reading
from bench.records.reading import Reading
from bench.records.store import Store
from support import page_records as made
from support.features import needs


@pytest.fixture
def results(tmp_path: Path) -> Path:
    made.store(tmp_path / "results")
    return tmp_path / "results"


class Counts:
    """How often each file was read, and how many groups the model was fitted to.

    `idle` are further fits, by the variances of an idle machine: they tell how much wider intervals are for the noise.
    """

    def __init__(self) -> None:
        self.reads: collections.Counter[str] = collections.Counter()
        self.fitted: list[int] = []
        self.idle: list[int] = []


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    found = Counts()
    read, fit = reading.read, comparison.fit

    def counted_read(file: BinaryIO, *, key: str) -> Reading:
        found.reads[key] += 1
        return read(file, key=key)

    def counted_fit(groups: Sequence[Group], *prior: Prior) -> list[Fitted]:
        (found.idle if prior == (noise.IDLE,) else found.fitted).append(len(groups))
        return fit(groups, *prior)

    monkeypatch.setattr(reading, "read", counted_read)
    monkeypatch.setattr(comparison, "fit", counted_fit)
    return found


OF_FEATURES = {"report": "page", "export": "export"}
"""The features of these commands."""
TELL_OF_NOISE = [("show",), ("report",)]
COMMANDS = [
    ("show",),
    ("show", "--format", "csv"),
    ("best",),
    ("report",),
    ("export", "--format", "gha"),
    ("plot",),
    ("pick", "toy", "--batch", "1", "--tolerance", "0.001%"),
    ("roofline", "--format", "md"),
]


@pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=needs(OF_FEATURES[each[0]]) if each[0] in OF_FEATURES else ()) for each in COMMANDS],
    ids=" ".join,
)
def test_a_command_reads_each_record_once(
    command: tuple[str, ...], results: Path, tmp_path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = {"report": tmp_path / "page.html", "plot": tmp_path / "plots", "pick": tmp_path / "picked"}
    more = ("--output", str(output[command[0]])) if command[0] in output else ()
    monkeypatch.setattr(sys, "argv", ["bench", *command, "--results", str(results), *more])
    with pytest.raises(SystemExit):
        main.main()

    keys = {path.stem for path in (results / "machine").glob("*.jsonl")}
    assert len(keys) == 4
    assert counts.reads == dict.fromkeys(keys, 1)
    assert counts.fitted == [1]
    assert counts.idle == ([1] if command in TELL_OF_NOISE else [])


def test_the_tables_of_a_sweep_need_no_second_reading(
    results: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "show", "--sweep", "seed", "--results", str(results)])
    with pytest.raises(SystemExit):
        main.main()

    assert set(counts.reads.values()) == {1}
    assert (counts.fitted, counts.idle) == ([1], [])


def test_a_process_that_does_not_free_very_many_records_says_all_and_ends_as_others(results: Path) -> None:
    def ended(many: int) -> subprocess.CompletedProcess[bytes]:
        code = f"from bench.cli import main, show; show.MANY = {many}; main.main()"
        command = [sys.executable, "-c", code, "show", "--format", "csv", "--results", str(results)]
        return subprocess.run(command, capture_output=True, timeout=60, check=True)

    found, other = ended(1), ended(5)
    assert found.stdout.count(b"toy/null/native/") >= 4
    assert (found.stdout, found.stderr) == (other.stdout, b"")


def test_a_refresh_of_the_live_table_reads_each_record_once(results: Path, counts: Counts) -> None:
    store, cells = Store(results, "machine"), [Cell.from_path(made.BASELINE), Cell.from_path(made.HALVE)]
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with progress.observer(console, lambda: folder.stored(store, tasks={"toy"}).of(cells)) as watch:
        watch.measured(cells)
        assert set(counts.reads.values()) == {1}
        assert (counts.fitted, counts.idle) == ([1], [])
        watch.progress(
            progress.Progress(num_round=1, num_new=0, num_open=1, num_beyond=0, num_cells=2, seconds_left=1.0)
        )
        watch.cell(cells[0], "exact")
        assert set(counts.reads.values()) == {1}, "a status line needs no results"
        watch.measured(cells)
        assert set(counts.reads.values()) == {2}


def test_the_model_is_not_fitted_to_other_tasks(results: Path, counts: Counts) -> None:
    found = folder.stored(Store(results, "machine"), tasks={"another"})

    assert found.rows == []
    assert counts.fitted == [0]
