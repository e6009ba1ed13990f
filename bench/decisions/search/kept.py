"""Searches as they are kept beside the results, so that the page and `bench explain` show them again."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bench.api import files
from bench.api.cell import Cell
from bench.api.errors import BenchError
from bench.decisions.search.design import Choice
from bench.decisions.search.effects import Tried
from bench.decisions.search.search import FIGURES, Outcome
from bench.records.store import write_atomically

FOLDER = "searches"
SCHEMA = 1
MOST_BYTES = 1 << 24
MOST_GROUPS, MOST_TRIED, MOST_LETTERS = 1_000, 10_000, 16
"""Sizes of a search beyond which a file was not written by one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kept:
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class LetterEffect:
    """What the letter of a group, or an option, does in a cell that a search proposed.

    Attributes:
        group: the nodes of the group, or the name of the option.
        letter: the letter.
        saved: what it takes off the latency, as a share of the base's; None where that is not known.
        noise: power of the error that it adds, over the power of the outputs.
        size_bytes: what it adds to the size.
    """

    group: str
    letter: str
    saved: float | None
    noise: float
    size_bytes: float


def name_of(request: tuple[str, int, int], objective: str) -> str:
    """What the files of a search are called, such as `crnn-b1t1-latency`: one of another question has another name."""
    task, batch, threads = request
    return f"{task}-b{batch}t{threads}-{objective}"


def keep(folder: Path, kept: Kept) -> Path:
    """Write a search below the folder of a machine's results, in place of an earlier one of the same question."""
    path = folder / FOLDER / f"{name_of(kept.request, kept.objective)}.json"
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, _encoded(kept))
    return path


def earlier(folder: Path, request: tuple[str, int, int], objective: str) -> Kept | None:
    """The search of the same question that is kept; None where there is none."""
    return next((one for one in read(folder) if (one.request, one.objective) == (request, objective)), None)


def read(folder: Path) -> list[Kept]:
    """The searches of a machine's results; files that hold none are left out."""
    found = []
    for path in sorted((folder / FOLDER).glob("*.json")):
        with contextlib.suppress(OSError, BenchError, msgspec.MsgspecError, ValueError, LookupError, TypeError):
            if path.stat().st_size > MOST_BYTES:
                continue
            kept = _decoded(files.read_bytes(path))
            if kept.schema == SCHEMA and kept.objective in FIGURES and all(map(_is_whole, kept.outcomes)):
                found.append(kept)
    return found


def _encoded(kept: Kept) -> bytes:
    """The search as JSON, with the coordinates of cells as texts."""
    fields = msgspec.to_builtins(kept)
    for stored, outcome in zip(fields["outcomes"], kept.outcomes, strict=True):
        stored["design"]["base"] = outcome.design.base.coordinates
    return msgspec.json.encode(fields)


def _decoded(text: bytes) -> Kept:
    """The search that `_encoded` wrote; errors of any kind where it is none."""
    fields = msgspec.json.decode(text)
    for stored in fields["outcomes"]:
        stored["design"]["base"] = msgspec.to_builtins(Cell.from_coordinates(stored["design"]["base"]))
    return msgspec.convert(fields, Kept)


def letters_of(searches: Sequence[Kept], cell: Cell) -> list[LetterEffect]:
    """The letters and options of a cell that a search proposed, by what they were measured to do; else none."""
    for outcome in (outcome for kept in searches for outcome in kept.outcomes):
        for one in outcome.tried:
            proposed = outcome.design.cell(one.choice)
            if dataclasses.replace(proposed, task=cell.task) == cell and one.choice != outcome.design.plain:
                return list(_effects(outcome, one.choice))
    return []


def _effects(outcome: Outcome, choice: Choice) -> Iterator[LetterEffect]:
    effects = outcome.effects()
    for key in enumerate(choice):
        if key[1] != outcome.design.letters[key[0]][0] and key in effects.told:
            yield LetterEffect(
                group=outcome.design.named(key[0]),
                letter=key[1],
                saved=-effects.ratio[key] if key in effects.ratio else None,
                noise=effects.noise.get(key, 0.0),
                size_bytes=effects.size_bytes.get(key, 0.0),
            )


def _is_whole(outcome: Outcome) -> bool:
    """Whether a design and its proposals fit together: a file may have been changed."""
    design = outcome.design
    count = len(design.groups)
    numbers = sorted(number for group in design.groups for number in group)
    return (
        len(design.letters) == count <= MOST_GROUPS
        and len(outcome.tried) <= MOST_TRIED
        and all(0 < len(letters) == len({*letters}) <= MOST_LETTERS for letters in design.letters)
        and all(part.letters for part in design.parts)
        and numbers == list(range(len(design.parts)))
        and all(not group for group in design.groups[count - len(design.options) :])
        and all(design.groups[: count - len(design.options)])
        and all(_fits(one, design.letters) for one in outcome.tried)
        and any(one.choice == design.plain for one in outcome.tried)
        and not design.base.provider.options
    )


def _fits(one: Tried, letters: Sequence[str]) -> bool:
    return len(one.choice) == len(letters) and all(
        letter and letter in allowed for letter, allowed in zip(one.choice, letters, strict=True)
    )
