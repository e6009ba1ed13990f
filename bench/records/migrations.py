"""Lines of earlier schemas as lines of the present one: one function for each step from a version to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bench.records.lines import SCHEMA

OLDEST = 1


def is_known(schema: int) -> bool:
    """Whether lines of a version can be read."""
    return OLDEST <= schema <= SCHEMA


def migrated(line: Any, schema: int) -> Any:
    """A decoded line of an earlier version as a line of the present version.

    Args:
        line: the line, as JSON decodes it; what is no object comes back as it is.
        schema: the version of the line.
    """
    if not isinstance(line, dict):
        return line
    for version in range(schema, SCHEMA):
        line = _STEPS[version](line)
    return line


def _from_1(line: dict[str, Any]) -> dict[str, Any]:
    """Launches told the precision before the quality did; measuring changed, and with it the keys, but no field."""
    if line.get("kind") in ("launch", "thread_launch"):
        line = {name: value for name, value in line.items() if name != "precision"}
    return {**line, "schema": 2} if line.get("kind") == "cell" else line


_STEPS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1}
