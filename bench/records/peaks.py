"""The peaks of a machine, kept beside its results."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from bench.measure.roofline import Peaks
from bench.records import forward_compat, side_files
from bench.records.reading import Damage
from bench.records.store import write_atomically

NAME = "peaks.json"
_HIGHEST = 1e30
"""No rate is higher, in MACs or bytes a second."""


def read(folder: Path) -> dict[int, Peaks]:
    """The peaks in a machine's folder of results, by number of threads; empty where none can be read."""
    return examined(folder)[0]


def examined(folder: Path) -> tuple[dict[int, Peaks], Damage | None]:
    """The peaks in a machine's folder of results, and what is wrong with the file of them."""
    fix = "no row has a place under the roof; `bench roofline` writes the file anew"
    peaks, damage = side_files.read(folder / NAME, dict[int, Peaks], fix=fix, check=_check)
    return peaks or {}, damage


def _check(known: dict[int, Peaks]) -> None:
    for threads, peaks in known.items():
        rates = [peaks.bytes_per_s, *peaks.macs_per_s.values()]
        if threads < 1 or not all(0 < rate <= _HIGHEST for rate in rates):
            raise ValueError(f"a rate of {threads} threads is not between 0 and {_HIGHEST:.0e}")
        if missing := peaks.macs_per_s.keys() - peaks.libraries.keys():
            raise ValueError(f"the library of {min(missing)!r} is missing")


def keep(folder: Path, threads: int, peaks: Peaks) -> dict[int, Peaks]:
    """Store the higher of the measured and the stored peaks of a number of threads, and return all stored peaks.

    Fields that only a newer version knows stay in the file.
    """
    known, damage = examined(folder)
    stored, _ = side_files.read(folder / NAME, dict[str, Any], fix="") if damage is None else (None, None)
    newer = [*forward_compat.beyond(stored or {}, _fields(known))]
    known[threads] = known[threads].or_higher(peaks) if threads in known else peaks
    fields = forward_compat.put_back(_fields(known), newer)
    write_atomically(folder / NAME, json.dumps(fields, indent=1, sort_keys=True) + "\n")
    return known


def _fields(known: dict[int, Peaks]) -> dict[str, Any]:
    return {str(number): dataclasses.asdict(peaks) for number, peaks in sorted(known.items())}
