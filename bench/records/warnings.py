"""What commands warn of beside rows: that no metric shows what is right, and that other programs held the cores."""

from __future__ import annotations

from collections.abc import Iterable

from bench.records.rows import Row


def warnings(rows: Iterable[Row]) -> list[str]:
    """Warnings for each task: its metric does not show whether a deployment is right, or the machine was busy."""
    rows = list(rows)
    chance = {row.task: row.chance_note for row in rows if row.chance_note is not None}
    busy = {row.task: row.busy_note for row in rows if row.busy_note is not None}
    return [
        *(f"WARNING: {task}: no metric shows whether a deployment is right: {note}" for task, note in chance.items()),
        *(f"WARNING: {task}: {note}" for task, note in busy.items()),
    ]
