"""Replaces the items of a repeated field of a protobuf message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def replace_all(field: Any, items: Iterable[Any]) -> None:
    """Make some messages the only items of a repeated field; they may be items of this very field."""
    messages = list(items)
    del field[:]
    field.extend(messages)
