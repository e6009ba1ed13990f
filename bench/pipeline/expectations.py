"""How fast cells are expected to be, by earlier sweeps: it orders the work, and replaces no measurement.

Where the time of a sweep does not suffice, the cells left out are those that gained little or nothing elsewhere.
"""

from __future__ import annotations

import contextlib
import csv
import math
import statistics
from collections.abc import Mapping
from pathlib import Path

from bench.api import loading
from bench.api.errors import InputError, StoreError
from bench.records.store import Record, Store

PUBLISHED = "results/reference/table.csv"


class Expected:
    """What the results of earlier code on this machine, and the published table, let expect of cells.

    Args:
        store: the results of this machine, before the sweep notes which of them are current.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys = store.current()
        checkout = loading.checkout()
        self._published = published(checkout / PUBLISHED) if checkout else {}
        self._of_other_tasks = _medians_by_deployment(self._published)
        self._medians_ns: dict[str, float | None] = {}

    def ratio(self, path: str) -> float:
        """The latency over the baseline's: of this machine where the cell was launched here; 0 if nothing is known."""
        return self.own(path) or self.published(path) or self.of_other_tasks(path)

    def own(self, path: str) -> float:
        """The latency over the baseline's as it was on this machine; 0 for a cell that was not launched here."""
        record = self._record(path)
        if record and (own_ns := self._median_ns(path)) and (of_ns := self._median_ns(record.launches[-1].reference)):
            return own_ns / of_ns
        return 0.0

    def published(self, path: str) -> float:
        """The latency over the baseline's in the published table; 0 for a cell that is not in it."""
        return self._published.get(path, 0.0)

    def of_other_tasks(self, path: str) -> float:
        """The median of the published ratios of the same deployment of other tasks; 0 where there are none."""
        return self._of_other_tasks.get(_deployment(path), 0.0)

    def _record(self, path: str) -> Record | None:
        record = None
        with contextlib.suppress(StoreError, InputError):  # what cannot be read tells nothing of the order
            record = self._store.read(self._keys[path]) if path in self._keys else None
        return record if record and record.launches else None

    def _median_ns(self, path: str) -> float | None:
        if path not in self._medians_ns:
            record = self._record(path)
            medians = [ns for launch in record.launches for ns in launch.medians_ns] if record else []
            self._medians_ns[path] = statistics.median(medians) if medians else None
        return self._medians_ns[path]


def _medians_by_deployment(ratios: Mapping[str, float]) -> dict[str, float]:
    """By deployment, the median of the ratios of its cells, which are given by path."""
    of_tasks: dict[str, list[float]] = {}
    for path, ratio in ratios.items():
        of_tasks.setdefault(_deployment(path), []).append(ratio)
    return {deployment: statistics.median(each) for deployment, each in of_tasks.items()}


def _deployment(path: str) -> str:
    """A cell's path without its task."""
    return path.partition("/")[2]


def published(table: Path) -> dict[str, float]:
    """By cell path, the ratios of a table that `bench show` wrote; none where it cannot be read.

    A cell that was not timed because it runs the graph of another has the ratio of that.
    """
    ratios: dict[str, float] = {}
    twins: dict[str, str] = {}
    with (
        contextlib.suppress(OSError, ValueError, KeyError, csv.Error),
        table.open(newline="", encoding="utf-8") as file,
    ):
        for line in csv.DictReader(file):
            if line["ratio"] and math.isfinite(ratio := float(line["ratio"])):
                ratios[line["cell"]] = ratio
            elif line.get("same_as"):
                twins[line["cell"]] = line["same_as"]
    return ratios | {cell: ratios[other] for cell, other in twins.items() if other in ratios}
