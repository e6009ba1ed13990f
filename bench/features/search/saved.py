"""Searches as they are saved beside the results, so that the page and `bench explain` show them again."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.api import files
from bench.api.cell import Cell
from bench.api.errors import BenchError
from bench.features.search.effects import Tried
from bench.features.search.proposals import FIGURES
from bench.features.search.search import Outcome
from bench.records.store import write_atomically

FOLDER = "searches"
SCHEMA = 1
MOST_BYTES = 1 << 24
_MOST_GROUPS, _MOST_TRIED, _MOST_LETTERS = 1_000, 10_000, 16
"""Sizes of a search beyond which a file was not written by one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SavedSearch:
    """A search of one request.

    Attributes:
        schema: number of this form.
        request: task, batch and threads.
        objective: what was made small.
        outcomes: the designs with their proposals.
        winner: path of the proposal that beat the fixed matrix; None where none did, or the search did not end yet.
    """

    schema: int
    request: tuple[str, int, int]
    objective: str
    outcomes: tuple[Outcome, ...]
    winner: str | None = None


def name_of(request: tuple[str, int, int], objective: str) -> str:
    """What the files of a search are called, such as `crnn-b1t1-latency`: one of another question has another name."""
    task, batch, threads = request
    return f"{task}-b{batch}t{threads}-{objective}"


def save(folder: Path, search: SavedSearch) -> Path:
    """Write a search below the folder of a machine's results, in place of an earlier one of the same question."""
    path = folder / FOLDER / f"{name_of(search.request, search.objective)}.json"
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, _encoded(search))
    return path


def earlier(folder: Path, request: tuple[str, int, int], objective: str) -> SavedSearch | None:
    """The saved search of the same question; None where there is none."""
    return next((search for search in read(folder) if (search.request, search.objective) == (request, objective)), None)


def read(folder: Path) -> list[SavedSearch]:
    """The searches of a machine's results; files that hold none are left out."""
    searches = []
    for path in sorted((folder / FOLDER).glob("*.json")):
        with contextlib.suppress(OSError, BenchError, msgspec.MsgspecError, ValueError, LookupError, TypeError):
            if path.stat().st_size > MOST_BYTES:
                continue
            search = _decoded(files.read_bytes(path))
            if search.schema == SCHEMA and search.objective in FIGURES and all(map(_is_whole, search.outcomes)):
                searches.append(search)
    return searches


def _encoded(search: SavedSearch) -> bytes:
    """The search as JSON, with the coordinates of cells as texts."""
    fields = msgspec.to_builtins(search)
    for stored, outcome in zip(fields["outcomes"], search.outcomes, strict=True):
        stored["design"]["base"] = outcome.design.base.coordinates
    return msgspec.json.encode(fields)


def _decoded(text: bytes) -> SavedSearch:
    """The search that `_encoded` wrote; errors of any kind where it is none."""
    fields = msgspec.json.decode(text)
    for stored in fields["outcomes"]:
        stored["design"]["base"] = msgspec.to_builtins(Cell.from_coordinates(stored["design"]["base"]))
    return msgspec.convert(fields, SavedSearch)


def _is_whole(outcome: Outcome) -> bool:
    """Whether a design and its proposals fit together: a file may have been changed."""
    design = outcome.design
    count = len(design.groups)
    numbers = sorted(number for group in design.groups for number in group)
    return (
        len(design.letters) == count <= _MOST_GROUPS
        and len(outcome.tried) <= _MOST_TRIED
        and all(0 < len(letters) == len({*letters}) <= _MOST_LETTERS for letters in design.letters)
        and all(part.letters for part in design.parts)
        and numbers == list(range(len(design.parts)))
        and all(not group for group in design.groups[count - len(design.options) :])
        and all(design.groups[: count - len(design.options)])
        and all(_fits(trial, design.letters) for trial in outcome.tried)
        and any(trial.choice == design.plain for trial in outcome.tried)
        and not design.base.provider.options
    )


def _fits(trial: Tried, letters: Sequence[str]) -> bool:
    return len(trial.choice) == len(letters) and all(
        letter and letter in allowed for letter, allowed in zip(trial.choice, letters, strict=True)
    )
