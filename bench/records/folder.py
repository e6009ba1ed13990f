"""The stored results of one machine: its folder, its records, and the rows that globs choose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.api.cell import Cell, matches
from bench.api.errors import InputError, suggest
from bench.measure import machine
from bench.measure.rounds import Goal
from bench.records import assemble
from bench.records import peaks as stored_peaks
from bench.records.rows import Row
from bench.records.store import Record, Store


def machine_folder(results: Path) -> Path:
    """The folder of this machine's results, or the only one there is.

    Raises:
        InputError: there is none, or it is not clear which.
    """
    if not results.is_dir():
        raise InputError(f"no such folder: {results}; `bench run` makes it")
    if (results / machine.name()).is_dir():
        return results / machine.name()
    if list(results.glob("*.jsonl")):
        return results
    folders = sorted({path.parent for path in results.glob("*/*.jsonl")})
    if len(folders) == 1:
        return folders[0]
    if not folders:
        raise InputError(f"no results in {results}; `bench run` measures")
    names = ", ".join(str(folder) for folder in folders)
    raise InputError(f"{results} holds no results of this machine, but of others: give one with --results: {names}")


def records(results: Path) -> dict[str, Record]:
    """The current record of each cell path, of the machine that `machine_folder` finds."""
    folder = machine_folder(results)
    return Store(folder.parent, folder.name).current_records()


def rows(
    results: Path, globs: Sequence[str] = (), *, margin: float = Goal().margin, baseline: str | None = None
) -> list[Row]:
    """Rows of the results in a folder.

    Raises:
        InputError: there are none, or none that a glob matches.
    """
    folder = machine_folder(results)
    found = assemble.rows(records(folder), baseline=baseline, margin=margin, peaks=stored_peaks.read(folder))
    if not found:
        raise InputError(f"no results in {folder}; `bench run` measures")
    return chosen(found, globs)


def chosen(rows: Sequence[Row], globs: Sequence[str]) -> list[Row]:
    """The rows whose cells a glob matches; all of them without globs.

    Raises:
        InputError: a glob matches none.
    """
    for glob in globs:
        if not any(matches(Cell.from_path(row.cell), [glob]) for row in rows):
            raise InputError(f"no result matches {glob!r}; {suggest(glob, [row.cell for row in rows])}")
    return [row for row in rows if not globs or matches(Cell.from_path(row.cell), globs)]
