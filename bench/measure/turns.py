"""Turns: the members of a block act one after the other in random order, and one that fails leaves the block."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from bench.api.cell import Cell
from bench.api.errors import ChildError
from bench.measure.comparison import CELL, CONTENDER, CONTROL, REFERENCE

_ROLES = (REFERENCE, CONTROL, CELL, CONTENDER)


class Seat(Protocol):
    """A member of a block in one role."""

    @property
    def role(self) -> str:
        """One of `_ROLES`."""

    @property
    def cell(self) -> Cell:
        """The cell that it runs."""


S = TypeVar("S", bound=Seat)
M = TypeVar("M")


def roles(baseline: M, members: Iterable[M], *, has_baseline: bool = True) -> list[tuple[M, str]]:
    """The members with their roles, in random order: the baseline twice, as the reference and as the A/A control.

    Without a baseline the members are contenders.
    """
    every = [(member, CELL if has_baseline else CONTENDER) for member in members]
    if has_baseline:
        every += [(baseline, REFERENCE), (baseline, CONTROL)]
    return random.sample(every, len(every))


def take(
    seats: Sequence[S],
    act: Callable[[S], None],
    leave: Callable[[S, ChildError], None],
    *,
    on_turn: Callable[[S], None] = lambda _: None,
) -> None:
    """Let each seat act, in random order, and let those that fail leave; `on_turn` is called before each."""
    for seat in random.sample(seats, len(seats)):
        on_turn(seat)
        try:
            act(seat)
        except ChildError as error:
            leave(seat, error)


def ordered(seats: Iterable[S]) -> list[S]:
    """The baseline's reference, its control, and the others by cell."""
    return sorted(seats, key=lambda seat: (_ROLES.index(seat.role), seat.cell))


def block_fields(baseline: Cell) -> dict[str, Any]:
    """Fields that all launches of a block share: an identifier of the block, and the cell to compare them with."""
    return {"block": new_id(), "reference": baseline.path}


def new_id() -> str:
    """An identifier of a block or a launch, in 16 characters."""
    return uuid.uuid4().hex[:16]
