"""The peaks of a machine, kept beside its results."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from bench.api.errors import StoreError
from bench.measure.roofline import Peaks
from bench.records.store import write_atomically

NAME = "peaks.json"


def read(folder: Path) -> dict[int, Peaks]:
    """The peaks in a machine's folder of results, by number of threads; empty where no peaks were measured.

    Raises:
        StoreError: the file is damaged.
    """
    path = folder / NAME
    try:
        return {int(threads): Peaks(**fields) for threads, fields in json.loads(path.read_text()).items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is not what it should be: {error}; delete it and run `bench roofline`") from error


def keep(folder: Path, threads: int, found: Peaks) -> dict[int, Peaks]:
    """Store the higher of the measured and the stored peaks of a number of threads, and return all stored peaks."""
    known = read(folder)
    known[threads] = known[threads].or_higher(found) if threads in known else found
    fields = {str(number): dataclasses.asdict(peaks) for number, peaks in sorted(known.items())}
    write_atomically(folder / NAME, json.dumps(fields, indent=1, sort_keys=True) + "\n")
    return known
