"""Ctrl-C is remembered until the sweep next asks for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from bench.api.cell import Cell
from bench.cli.interrupts import Heeding
from bench.measure.rounds import Progress

CELL = Cell.from_path("toy/null/native/raw/null/cpu/b1t1")
PROGRESS = Progress(num_round=1, num_new=1, num_open=0, num_beyond=0, num_cells=1, seconds_left=1.0)
REPORTS: list[Callable[[Heeding], None]] = [
    lambda it: it.stage("measure", 1),
    lambda it: it.cell(CELL, "exact"),
    lambda it: it.measured([CELL]),
    lambda it: it.progress(PROGRESS),
    lambda it: it.heed(),
]


class Notes:
    """An observer that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def stage(self, name: str, total: int) -> None:
        self.told.append((name, total))

    def cell(self, cell: Cell, outcome: str) -> None:
        self.told.append((cell, outcome))

    def measured(self, cells: object) -> None:
        self.told.append(cells)

    def progress(self, progress: Progress) -> None:
        self.told.append(progress)


class Swallows:
    """What a signal raises in a finalizer is lost."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):  # it is raised here
            pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("report", REPORTS)
def test_lost_interrupt_is_heard(report: Callable[[Heeding], None]) -> None:
    notes = Notes()
    with Heeding(notes) as watch:
        Swallows()
        with pytest.raises(KeyboardInterrupt):
            report(watch)
    assert notes.told == []


def test_interrupt_comes_at_once() -> None:
    with Heeding(Notes()), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_without_one_everything_is_told_and_the_handler_comes_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    notes = Notes()
    with Heeding(notes) as watch:
        assert signal.getsignal(signal.SIGINT) != before
        for report in REPORTS:
            report(watch)
    assert notes.told == [("measure", 1), (CELL, "exact"), [CELL], PROGRESS]
    assert signal.getsignal(signal.SIGINT) == before
