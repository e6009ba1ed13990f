"""Ctrl-C, remembered until the sweep asks whether it came.

A signal's exception is lost when it comes while Python runs a finalizer or a callback of its garbage collector: it is
printed as ignored, and the program goes on. A sweep asks again whenever it reports something.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any

from bench.api.cell import Cell
from bench.measure.rounds import Progress
from bench.pipeline.sweep import Observer


class Heeding:
    """An observer that passes every report on to another observer, and raises `KeyboardInterrupt` after a Ctrl-C."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._came = False
        self._before: Any = None

    def __enter__(self) -> Heeding:
        if threading.current_thread() is threading.main_thread():  # no other may set handlers, or is interrupted
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        raise KeyboardInterrupt

    def heed(self) -> None:
        """Raise `KeyboardInterrupt` if there was a Ctrl-C."""
        if self._came:
            raise KeyboardInterrupt

    def stage(self, name: str, total: int) -> None:
        self.heed()
        self._observer.stage(name, total)

    def cell(self, cell: Cell, outcome: str) -> None:
        self.heed()
        self._observer.cell(cell, outcome)

    def measured(self, cells: Sequence[Cell]) -> None:
        self.heed()
        self._observer.measured(cells)

    def progress(self, progress: Progress) -> None:
        self.heed()
        self._observer.progress(progress)
