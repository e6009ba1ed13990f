"""Options of no command, and the words of the progress."""

from __future__ import annotations

import io
import re
import sys
from importlib import metadata

import pytest
from rich.console import Console

from bench.api.cell import Cell
from bench.cli import main, options, progress
from bench.decisions import deployment
from bench.measure import machine
from bench.measure.rounds import Progress
from bench.tasks import formats
from support import records as made


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--version"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert not ended.value.code
    assert capsys.readouterr().out == f"bench {metadata.version('inferometer')}\n"


def test_version_of_sources_that_are_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    monkeypatch.setattr(sys, "argv", ["bench", "--version"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert not ended.value.code
    assert capsys.readouterr().out == "bench (not installed)\n"
    assert deployment.version() is None  # which a recipe keeps as null


def test_help_of_run_names_every_kind_of_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "run", "--help"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert not ended.value.code
    printed = " ".join(re.sub(r"[^\w.,()\- ]", " ", capsys.readouterr().out).split())
    described = [found.described for found in formats.known().values()]
    assert len(described) > 10
    assert [text for text in described if text not in printed] == []


@pytest.mark.parametrize(
    ("number", "stage", "stored", "new"),
    [
        (1, "preparing 1 cell", "1 launch stored", "1 of 1 cell not launched yet, 1 question open"),
        (2, "preparing 2 cells", "2 launches stored", "2 of 2 cells not launched yet, 2 questions open"),
    ],
)
def test_one_is_not_many(number: int, stage: str, stored: str, new: str) -> None:
    file = io.StringIO()
    now = Progress(num_round=1, num_new=number, num_open=number, num_beyond=0, num_cells=number, seconds_left=0.0)
    with progress.observer(Console(file=file), list, every_s=0) as watch:
        watch.stage("prepare", number)
        watch.stage("measure", number)
        watch.progress(now)
        watch.measured([Cell.from_path(made.BASELINE)] * number)
    lines = file.getvalue().splitlines()
    assert lines[0].endswith(f"; {stage}")
    assert lines[2].endswith(new)
    assert lines[3].endswith(f"; {stored}")


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_busy_machine_is_told_of_once_before_cells_are_measured(is_terminal: bool) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=is_terminal, width=200, color_system=None)
    with progress.observer(console, busy=lambda: "this machine is busy") as watch:
        watch.stage("prepare", 1)
        assert "busy" not in file.getvalue()
        for _ in range(2):
            watch.stage("measure", 1)
    assert file.getvalue().count("this machine is busy") == 1


def test_a_machine_is_busy_by_its_load_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "num_cores", lambda: 2)
    for load, is_busy in ((20.0, True), (6.0, False), (None, False)):
        monkeypatch.setattr(machine, "state", lambda load=load: machine.State(load_1m=load, available_bytes=1))
        said = machine.busy()
        assert (said is not None) == is_busy
    monkeypatch.setattr(machine, "state", lambda: machine.State(load_1m=20.0, available_bytes=1))
    assert (machine.busy() or "").startswith("this machine is busy: a load of 20 on 2 cores; ")


@pytest.mark.parametrize(("is_terminal", "lines"), [(False, 1), (True, 2)])
def test_messages_in_a_terminal_break_at_blanks(
    is_terminal: bool, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["a-word-with-hyphens"] * 5
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setenv("COLUMNS", "80")
    options.say(" ".join(words))
    said = capsys.readouterr().err
    assert said.split() == ["bench:", *words]
    assert len(said.splitlines()) == lines


def told(outcomes: list[str], *, is_short: bool, is_terminal: bool) -> str:
    """All text that an observer prints of cells with these outcomes, ten lines of progress a second allowed."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=is_terminal, width=200, color_system=None)
    with progress.observer(console, None if is_short else list, every_s=0.1) as watch:
        watch.stage("prepare", len(outcomes))
        for outcome in outcomes:
            watch.cell(Cell.from_path(made.BASELINE), outcome)
    return file.getvalue()


@pytest.mark.parametrize("is_terminal", [False, True])
def test_cells_that_went_wrong_are_told_at_once_in_a_sweep_and_counted_in_a_short_run(is_terminal: bool) -> None:
    outcomes = ["failed: no kernel", "skipped: no CUDA", "failed: no memory"]
    sweep = told(outcomes, is_short=False, is_terminal=is_terminal)
    assert all(f"{made.BASELINE}: {outcome}\n" in sweep for outcome in outcomes)
    short = told(outcomes, is_short=True, is_terminal=is_terminal)
    assert "no kernel" not in short
    assert ("preparing 3 of 3, 1 skipped, 2 failed" in short) == is_terminal, "elsewhere three events are one line"
    assert short.count("\n") <= 1
