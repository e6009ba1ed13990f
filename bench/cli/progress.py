"""The progress of a sweep: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from bench.api.cell import Cell
from bench.measure.rounds import Progress
from bench.records.ranking import select
from bench.records.rows import Row
from bench.report.tables import TerminalTable

VERBS = {"prepare": "preparing", "verify": "verifying", "measure": "measuring"}


@contextmanager
def observer(console: Console, rows: Callable[[], list[Row]]) -> Iterator[Watch]:
    """An observer of a sweep that prints on a console: with a live table where the console is a terminal.

    Args:
        console: the console to print on.
        rows: returns the rows as they are stored now; called once for each refresh of the table.
    """
    if not console.is_terminal:
        yield Watch(console)
        return
    with Live(console=console, transient=True, auto_refresh=False, vertical_overflow="ellipsis") as live:
        yield LiveWatch(console, live, rows)


class Watch:
    """Prints each step of a sweep in a line of its own."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stage = ""
        self._total = 0
        self._done = 0
        self._start = time.monotonic()
        self._progress: Progress | None = None
        self._last = ""

    def stage(self, name: str, total: int) -> None:
        """A stage of `total` cells begins."""
        self._stage, self._total, self._done = name, total, 0
        self._changed(f"{VERBS[name]} {_count(total, 'cell')}")

    def cell(self, cell: Cell, outcome: str) -> None:
        """A cell is through the present stage, or failed in it."""
        self._done += self._stage != "measure"
        self._changed(f"{cell}: {outcome}")

    def measured(self, cells: Sequence[Cell]) -> None:
        """Launches of these cells were stored."""
        self._changed(f"{_count(len(cells), 'launch', 'launches')} stored")

    def progress(self, progress: Progress) -> None:
        """The measurement went on as far as `progress` says."""
        self._progress = progress
        self._changed("")

    def _status(self) -> str:
        clock = _minutes(time.monotonic() - self._start)
        if self._stage == "measure" and self._progress is not None:
            now = self._progress
            left = f", about {_minutes(now.seconds_left)} left" if now.seconds_left else ""
            new = f"{now.num_new} of {_count(now.num_cells, 'cell')} not launched yet, " if now.num_new else ""
            beyond = f", {now.num_beyond} that the allowed launches cannot answer" if now.num_beyond else ""
            return f"{clock} round {now.num_round}: {new}{_count(now.num_open, 'question')} open{beyond}{left}"
        return f"{clock} {VERBS.get(self._stage, '')} {self._done} of {self._total}"

    def _changed(self, event: str) -> None:
        line = f"{self._status()}{'; ' + event if event else ''}"
        if line != self._last:
            self._console.print(Text(line), soft_wrap=True)
        self._last = line


class LiveWatch(Watch):
    """Redraws a status line, and the table of results below it."""

    def __init__(self, console: Console, live: Live, rows: Callable[[], list[Row]]) -> None:
        super().__init__(console)
        self._live = live
        self._rows = rows
        self._table: RenderableType = ""

    def measured(self, cells: Sequence[Cell]) -> None:
        self._redraw()
        super().measured(cells)

    def stage(self, name: str, total: int) -> None:
        if name == "measure":
            self._redraw()
        super().stage(name, total)

    def cell(self, cell: Cell, outcome: str) -> None:
        if outcome.startswith(("failed", "skipped")):
            self._live.console.print(Text(f"{cell}: {outcome}", style="yellow"))
        super().cell(cell, outcome)

    def _redraw(self) -> None:
        self._table = TerminalTable(select(row for row in self._rows() if row.num_launches))

    def _changed(self, event: str) -> None:
        self._live.update(Group(Text(f"{self._status()}  {event}", style="bold"), self._table), refresh=True)


def _count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun, such as `1 cell` or `2 cells`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
