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
from bench.measure.open_work import Progress
from bench.tasks import formats
from support import records as made
from support.rows import BASELINE, FAST


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
        (1, "preparing 0 of 1 cell", "1 launch stored", "1 of 1 cell not launched yet, 1 question open"),
        (2, "preparing 0 of 2 cells", "2 launches stored", "2 of 2 cells not launched yet, 2 questions open"),
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
    assert lines[0].endswith(f" {stage}")
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


class Clock:
    """Stands in for the module `time`: goes on when it is told to."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made_clock = Clock()
    monkeypatch.setattr(progress, "time", made_clock)
    return made_clock


def test_a_pipe_gets_a_line_every_ten_seconds_at_most_and_where_a_stage_begins(clock: Clock) -> None:
    """Whatever else happens: cells that go wrong, launches, a first part of a sweep that has been measured."""
    file = io.StringIO()
    printed: list[float] = []
    with progress.observer(Console(file=file), list) as watch:
        for second in range(100):
            clock.now, before = float(second), file.getvalue()
            watch.stage(("prepare", "verify", "measure")[second // 34], 300)
            for _ in range(3):
                watch.cell(Cell.from_path(made.BASELINE), "failed: no kernel")
            watch.measured([Cell.from_path(made.BASELINE)])
            watch.standing(20, 300)
            assert file.getvalue().count("\n") - before.count("\n") <= 1
            printed += [clock.now] * (file.getvalue() != before)
    assert printed == [0, 10, 20, 30, 34, 44, 54, 64, 68, 78, 88, 98]
    lines = file.getvalue().splitlines()
    assert lines[0] == "0:00 preparing 0 of 300 cells"
    assert lines[2].startswith("0:20 preparing 0 of 300 cells, 60 failed"), (
        "those of the second that begins are not yet"
    )
    assert lines[1].endswith("; 20 of 300 cells are measured, and `bench show` has their table")
    assert len(lines) == len(printed)


def test_a_terminal_has_one_view_that_is_redrawn(clock: Clock) -> None:
    """A line and the table, over and over in the same place; nothing of it is left when the sweep ends."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100, height=30, color_system=None, legacy_windows=False)
    with progress.observer(console, lambda: [BASELINE, FAST]) as watch:
        watch.stage("measure", 2)
        for second in range(20):
            clock.now = float(second)
            watch.cell(Cell.from_path(made.BASELINE), "failed: no kernel")
            watch.measured([Cell.from_path(made.BASELINE)])
    assert on_screen(file.getvalue(), height=30) == []
    last = file.getvalue().rpartition("measuring")[2]
    assert ", 20 failed" in last, "it counts what went wrong"
    assert "torch_onnx/raw/onnxruntime" in last, "the table is below the line"


def on_screen(written: str, height: int) -> list[str]:
    """The lines that a terminal shows after what was written, by the few codes that a live view uses."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[\??\d*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        if part == "\n":
            row += 1
            lines += [""] * (row - len(lines) + 1)
        elif part.startswith("\x1b") and part.endswith("A"):
            row -= int(part[2:-1] or 1)
        elif part == "\x1b[2K":
            lines[row] = ""
        elif not part.startswith("\x1b") and part != "\r":
            lines[row] += part
    assert max(len(lines), 1) <= height
    return [line for line in lines if line.strip()]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_cells_that_went_wrong_are_counted_and_have_no_lines(is_terminal: bool, clock: Clock) -> None:
    """Their reasons are in the table."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=is_terminal, width=200, color_system=None)
    with progress.observer(console, None) as watch:
        watch.stage("prepare", 4)
        for outcome in ("failed: no kernel", "skipped: no CUDA", "failed: no memory"):
            watch.cell(Cell.from_path(made.BASELINE), outcome)
        clock.now += progress.EVERY_S
        watch.cell(Cell.from_path(made.BASELINE), "prepared")
    text = file.getvalue()
    assert "preparing 4 of 4 cells, 1 skipped, 2 failed" in text
    assert len(on_screen(text, height=25)) == (0 if is_terminal else 2)
