"""A fault of a line, and the faults of free facts, which no type says more of."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

LARGEST = 2**63 - 1
"""The largest whole number of a line; a larger number has no float to compute with."""
_DEEPEST = 20
"""Levels of lists and objects in the facts that a machine or a step tells."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong with a line, and the field that it is wrong in."""

    field: str
    reason: str


def of_facts(field: str, value: object) -> Iterator[Fault]:
    """Faults of free facts: numbers that are out of range, and lists or objects within too many others."""
    if not _is_sound(value):  # to name the fault takes far longer
        yield from _within(field, value, 0)


def _is_sound(value: object, depth: int = 0) -> bool:
    """Whether facts have no such fault."""
    if depth > _DEEPEST:
        return False
    if isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            if inner is None or type(inner) in (str, bool):
                continue
            if not (_is_fine(inner) if type(inner) in (int, float) else _is_sound(inner, depth + 1)):
                return False
        return depth < _DEEPEST or not value
    return not isinstance(value, int | float) or _is_fine(value)


def _within(field: str, value: object, depth: int) -> Iterator[Fault]:
    if depth > _DEEPEST:
        yield Fault(field=field, reason="it is nested too deeply")
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _within(f"{field}.{name}" if depth == 0 else field, inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _within(field, inner, depth + 1)
    elif isinstance(value, int | float) and not _is_fine(value):
        yield Fault(field=field, reason=f"a number is beyond {LARGEST}")


def _is_fine(value: Any) -> bool:
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= LARGEST
