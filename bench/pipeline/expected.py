"""How fast cells are expected to be, by what earlier sweeps stored: it orders the work, and replaces no measurement.

Where the time of a sweep ends early, the cells that it did not come to are those that were far behind elsewhere.
"""

from __future__ import annotations

import contextlib
import csv
import math
import statistics
from collections.abc import Mapping
from pathlib import Path

from bench.api import loading
from bench.records.store import Record

PUBLISHED = "results/reference/table.csv"


def ratios(records: Mapping[str, Record]) -> dict[str, float]:
    """By cell path, the latency over the baseline's: of this machine where it was launched here, else as published.

    Args:
        records: the records of this machine by cell path, which earlier code may have written.
    """
    checkout = loading.checkout()
    return {**(published(checkout / PUBLISHED) if checkout else {}), **_seen(records)}


def _seen(records: Mapping[str, Record]) -> dict[str, float]:
    levels = {path: _median_ns(record) for path, record in records.items() if record.launches}
    references = {path: records[path].launches[-1].reference for path in levels}
    return {path: level / levels[references[path]] for path, level in levels.items() if references[path] in levels}


def _median_ns(record: Record) -> float:
    return statistics.median(ns for launch in record.launches for ns in launch.medians_ns)


def published(table: Path) -> dict[str, float]:
    """By cell path, the ratios of a table that `bench show` wrote; none where it cannot be read."""
    found = {}
    with (
        contextlib.suppress(OSError, ValueError, KeyError, csv.Error),
        table.open(newline="", encoding="utf-8") as file,
    ):
        for line in csv.DictReader(file):
            if line["ratio"] and math.isfinite(ratio := float(line["ratio"])):
                found[line["cell"]] = ratio
    return found
