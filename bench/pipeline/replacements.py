"""Which exports of a sweep work, and the cells that are measured in place of those whose export fails.

Variants, and most runtimes of a format, are measured on one export to that format: its failure is not theirs where the
model has another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from bench.api.cell import Cell
from bench.api.names import PluginName
from bench.plugins import catalog
from bench.records.lines import Failure


class Exports:
    """The exports of a sweep, as far as cells without variants have told whether they work.

    Attributes:
        replaced: cells whose export fails, and the cell that is measured in place of each.
    """

    def __init__(self) -> None:
        self.replaced: dict[Cell, Cell] = {}
        self._works: dict[tuple[str, str, str], bool] = {}

    def note(self, cell: Cell, outcome: object) -> None:
        """Note what came of preparing a cell: without variants, its only step is its export."""
        if not cell.chain and not (isinstance(outcome, Failure) and outcome.stage == "skip"):
            key = (str(cell.task), cell.source, str(cell.exporter))
            self._works[key] = self._works.get(key, False) or not isinstance(outcome, Failure)

    def in_place_of(self, cell: Cell, measured: Collection[Cell]) -> Cell | None:
        """The cell to measure in place of one whose export fails: the same with an export to its format that works.

        Args:
            cell: a cell that could not be prepared.
            measured: the cells of the sweep, among which the other cell may be already.

        Returns:
            The other cell; None where the cell's own export works, where no other does, or where it is measured anyway.
        """
        if self._works.get((str(cell.task), cell.source, str(cell.exporter)), True):
            return None
        format_ = catalog.format_of(cell)
        for (task, source, exporter), works in sorted(self._works.items()):  # as they are listed, not as they ended
            if (task, source) != (str(cell.task), cell.source) or not works:
                continue
            if catalog.exporter(exporter).format(source) == format_:
                other = dataclasses.replace(cell, exporter=PluginName.parse(exporter))
                return None if other in measured else self.replaced.setdefault(cell, other)
        return None


def lines(replaced: Mapping[Cell, Cell]) -> list[str]:
    """A line for each export in place of which another is measured."""
    pairs = [(cell.task, cell.exporter, other.exporter) for cell, other in replaced.items()]
    return [
        f"{task}: {exporter} fails, as its row says; {pairs.count((task, exporter, other))} cells that need such a "
        f"file have that of {other}"
        for task, exporter, other in dict.fromkeys(pairs)
    ]
