"""The progress of a sweep: one live view on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live

from bench.api.cell import Cell
from bench.measure.open_work import Progress
from bench.records.ranking import select
from bench.records.rows import Row
from bench.report import terminal
from bench.report.tables import TerminalTable

EVERY_S = 10.0
"""Least time from one line of progress to the next where lines stay, such as in a file."""
_STAGE_S = 1.0
"""The same where a stage begins: its first cell may take long, and shorter stages are told by their cells."""
_BAD = ("skipped", "failed")
_VERBS = {"prepare": "preparing", "verify": "verifying", "measure": "measuring"}


@contextmanager
def observer(
    console: terminal.Console,
    rows: Callable[[], list[Row]] | None = None,
    *,
    every_s: float = EVERY_S,
    busy: Callable[[], str | None] = lambda: None,
) -> Iterator[Watch]:
    """An observer of a sweep that prints on a console: one view that is redrawn where the console is a terminal.

    Args:
        console: the console to print on.
        rows: returns the rows as they are stored now, for a table below the line of a terminal; called once for each
            refresh of the table. None for a short run, whose table follows soon.
        every_s: least time between two lines where the console is no terminal.
        busy: asked before the first cell is measured what to say of a machine that others use; None for nothing.
    """
    if not console.is_terminal:
        yield Watch(console, every_s, busy=busy)
        return
    with Live(console=console, transient=True, auto_refresh=False, vertical_overflow="ellipsis") as live:
        yield LiveWatch(console, live, rows, busy)


class Watch:
    """Prints how far a sweep is, a line now and then; cells that went wrong are counted, and the table says why.

    Args:
        console: the console to print on.
        every_s: least time between two lines.
        name: of the sweep, where lines of several are printed.
        busy: see `observer`.
    """

    def __init__(
        self,
        console: terminal.Console,
        every_s: float = EVERY_S,
        *,
        name: str | None = None,
        busy: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._console = console
        self._busy = busy
        self._name = name
        self._every_s = every_s
        self._num_bad = dict.fromkeys(_BAD, 0)
        self._printed = -math.inf
        self._stage = ""
        self._total = 0
        self._done = 0
        self._start = time.monotonic()
        self._progress: Progress | None = None
        self._last = ""
        self._standing = ""
        self._has_measured = False

    def stage(self, name: str, total: int) -> None:
        """A stage of `total` cells begins."""
        least_s = min(self._every_s, _STAGE_S) if name != self._stage else self._every_s
        self._stage, self._total, self._done = name, total, 0
        if name == "measure":
            said, self._busy = self._busy(), lambda: None
            if said is not None:
                self._console.print(terminal.line(said), soft_wrap=True)
        self._changed("", least_s)

    def cell(self, cell: Cell, outcome: str) -> None:
        """A cell is through the present stage, or failed in it."""
        self._done += self._stage != "measure"
        bad = next((kind for kind in _BAD if outcome.startswith(kind)), None)
        if bad is not None:
            self._num_bad[bad] += 1
        self._changed(f"{cell}: {outcome}")

    def measured(self, cells: Sequence[Cell]) -> None:
        """Launches of these cells were stored."""
        self._has_measured = True
        self._changed(f"{_count(len(cells), 'launch', 'launches')} stored")

    def progress(self, progress: Progress) -> None:
        """The measurement went on as far as `progress` says."""
        self._progress = progress
        self._changed("")

    def standing(self, num_cells: int, total: int) -> None:
        """So many cells of the sweep, of `total`, have been through all stages: the next line says so."""
        if self._has_measured and num_cells < total:
            self._standing = f"; {num_cells} of {total} cells are measured, and `bench show` has their table"

    def _status(self) -> str:
        clock = _minutes(time.monotonic() - self._start)
        wrong = "".join(f", {num} {kind}" for kind, num in self._num_bad.items() if num)
        if self._stage == "measure" and self._progress is not None:
            now = self._progress
            left = f", about {_minutes(now.seconds_left)} left" if now.seconds_left else ""
            new = f"{now.num_new} of {_count(now.num_cells, 'cell')} not launched yet, " if now.num_new else ""
            beyond = f", {now.num_beyond} that the allowed launches cannot answer" if now.num_beyond else ""
            return f"{clock} round {now.num_round}: {new}{_count(now.num_open, 'question')} open{beyond}{left}{wrong}"
        return f"{clock} {_VERBS.get(self._stage, '')} {self._done} of {_count(self._total, 'cell')}{wrong}"

    def _changed(self, event: str, least_s: float | None = None) -> None:
        now = time.monotonic()
        if now - self._printed < (self._every_s if least_s is None else least_s):
            return
        line = f"{self._status()}{'; ' + event if event else ''}"
        line = line if self._name is None else f"{self._name}: {line}"
        line, self._standing = line + self._standing, ""
        if line != self._last:
            self._console.print(terminal.line(line), soft_wrap=True)
            self._printed = now
            self._last = line


class LiveWatch(Watch):
    """Redraws a status line, and the table of results below it if there is to be one."""

    def __init__(
        self,
        console: terminal.Console,
        live: Live,
        rows: Callable[[], list[Row]] | None,
        busy: Callable[[], str | None],
    ) -> None:
        super().__init__(console, busy=busy)
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

    def _redraw(self) -> None:
        if self._rows is None:
            return
        self._table = TerminalTable(select(row for row in self._rows() if row.num_launches))

    def _changed(self, event: str, least_s: float | None = None) -> None:
        line = terminal.line(f"{self._status()}  {event}", style="bold", no_wrap=True, overflow="ellipsis")
        self._live.update(Group(line, self._table) if self._table else line, refresh=True)


def _count(number: int, noun: str, many: str | None = None) -> str:
    """A number with its noun, such as `1 cell` or `2 cells`."""
    return f"{number} {noun if number == 1 else many or noun + 's'}"


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
