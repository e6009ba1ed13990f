"""Fields that only a newer version knows, at any depth: found where they are read, put back where they are copied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

Field: TypeAlias = tuple[tuple[str, ...], Any]
"""The names that lead to a field, and its value as it was read."""


def beyond(stored: Mapping[str, Any], known: Mapping[str, Any], names: tuple[str, ...] = ()) -> Iterator[Field]:
    """Iterate over the fields of an object, and of the objects in its fields, that are not among those that are known.

    Args:
        stored: the object, as JSON has it.
        known: the same object, as it would be written now.
        names: the names that lead to the object.
    """
    for name, value in stored.items():
        if name not in known:
            yield (*names, name), value
        elif isinstance(value, dict) and isinstance(known[name], dict):
            yield from beyond(value, known[name], (*names, name))


def put_back(known: Mapping[str, Any], unknown: Iterable[Field]) -> dict[str, Any]:
    """An object with unknown fields within the objects that they were read in; those of objects that are gone go, too.

    A field that is known by now keeps its value.
    """
    fields = dict(known)
    for (*names, last), value in unknown:
        at: Any = fields
        for name in names:
            if not isinstance(at.get(name), Mapping):
                break
            at[name] = at = dict(at[name])
        else:
            at.setdefault(last, value)
    return fields
