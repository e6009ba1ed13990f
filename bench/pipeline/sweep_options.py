"""The settings of a sweep, and who watches it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from bench.api.cell import Cell
from bench.api.loss_units import AllowedLoss
from bench.measure.block import Method
from bench.measure.goal import Goal
from bench.measure.open_work import Progress


class Observer(Protocol):
    """A watcher of a sweep, who is told of its steps."""

    def stage(self, name: str, total: int) -> None:
        """A stage of `total` cells begins."""

    def cell(self, cell: Cell, outcome: str) -> None:
        """A cell has left the present stage, with this outcome."""

    def measured(self, cells: Sequence[Cell]) -> None:
        """Launches of these cells were stored."""

    def progress(self, progress: Progress) -> None:
        """The progress of measuring, before the first block and after each block."""

    def standing(self, num_cells: int, total: int) -> None:
        """So many cells of the sweep, of `total`, have been through all stages."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The settings of a sweep.

    Attributes:
        method: how blocks are measured.
        goal: when a cell has been measured enough.
        force: whether cells that have been measured enough are measured again.
        max_metric_loss: the most that a cell may lose of the reference's metric and still win.
        across_threads: compare each cell with itself at one thread, rather than with the task's baseline.
        ends_s: time by `time.monotonic` at which measuring is to end; where preparing took long, measuring gets less
            than its budget, but at least `time_left.LEAST_SHARE` of it. None for the whole budget.
        baseline: the cell to compare with, of the same request; None for the task's baseline.
        whole_split: whether every cell runs the whole held-out split before any cell is timed. Otherwise the cells go
            through all stages in waves with a few samples each, and only contenders run as many as decide: see
            `bench.pipeline.looks` and `bench.pipeline.contenders`.
    """

    method: Method = Method()
    goal: Goal = Goal()
    force: bool = False
    max_metric_loss: AllowedLoss = AllowedLoss()
    across_threads: bool = False
    ends_s: float | None = None
    baseline: Cell | None = None
    whole_split: bool = True
