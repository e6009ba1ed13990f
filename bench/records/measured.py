"""A cell with all that is known of it, stored or fresh: the source of a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from bench.api.artifact import Facts
from bench.api.cell import Cell
from bench.measure.launch import Launch
from bench.records.lines import Failure, Quality


class Figures(Protocol):
    """What a row needs of a cell: a stored `Record` has it, and a fresh `Measured`."""

    @property
    def key(self) -> str: ...
    @property
    def cell(self) -> Cell: ...
    @property
    def subject(self) -> tuple[str | None, ...]: ...
    @property
    def time(self) -> str: ...
    @property
    def artifact(self) -> Facts | None: ...
    @property
    def quality(self) -> Quality | None: ...
    @property
    def launches(self) -> tuple[Launch, ...]: ...
    @property
    def failure(self) -> Failure | None: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """A cell that was measured now, as far as it came.

    Attributes:
        key: digest of all that the figures depend on.
        subject: digests of the task and of its dataset (None where it has none).
        time: when it was begun (ISO 8601).
        artifact: None where none could be made.
        quality: None where it was not verified.
        launches: those that ran beside the task's baseline at as many threads.
        failure: why there are no figures, or no further ones; None while all went well.
    """

    key: str
    cell: Cell
    subject: tuple[str | None, ...] = ()
    time: str = ""
    artifact: Facts | None = None
    quality: Quality | None = None
    launches: tuple[Launch, ...] = ()
    failure: Failure | None = None


def what_runs(cell: Cell, artifact: Facts | None) -> object | None:
    """Equal for two cells that run the very same thing; None where that cannot be told."""
    if artifact is None or not artifact.canonical:
        return None
    return (cell.group, cell.runtime, cell.provider, artifact.canonical)


def same_as(cells: Sequence[Figures]) -> dict[str, str]:
    """Cells that need no timing of their own: path of each, to the path of the cell that runs the very same thing.

    The same thing is the same canonical graph with the same weights on the same runtime, provider, batch and threads.
    Of each such set the cell that was already timed stands for all, or else the first.
    """
    sets: dict[object, list[Figures]] = {}
    for cell in cells:
        if (thing := what_runs(cell.cell, cell.artifact)) is not None:
            sets.setdefault(thing, []).append(cell)
    found: dict[str, str] = {}
    for members in sets.values():
        keeper = max(members, key=lambda member: bool(member.launches))
        found |= {other.cell.path: keeper.cell.path for other in members if not other.launches and other != keeper}
    return found
