"""Whether the metric of a task's reference is better than that of an answer which ignores the inputs."""

from __future__ import annotations

from collections.abc import Iterable

from bench.records.rows import Row


def note(metric: float | None, chance: float | None, *, name: str, higher_is_better: bool) -> str | None:
    """Why a metric tells nothing about the outputs; None where it is better than chance, or that is unknown.

    Args:
        metric: the metric of some outputs.
        chance: the metric that an answer which ignores the inputs may reach, see `Task.chance`.
        name: name of the metric.
        higher_is_better: whether a higher metric is better.
    """
    if metric is None or chance is None or (metric > chance if higher_is_better else metric < chance):
        return None
    return f"{name} {metric:.4g} is no better than chance: an answer that ignores the inputs may reach {chance:.4g}"


def warnings(rows: Iterable[Row]) -> list[str]:
    """A warning for each task whose reference is no better than chance, so that its metric tells nothing.

    The reference is among the best rows, but for noise; so a task is warned of where not a single row is better.
    """
    by_task: dict[str, list[Row]] = {}
    for row in rows:
        if row.status == "ok" and row.metric is not None and row.fidelity != "broken":
            by_task.setdefault(row.task, []).append(row)
    return [
        f"WARNING: {task}: {members[0].chance_note}: no row shows whether a deployment is right; look whether the "
        "targets belong to these samples in this order, how classes are numbered, and how the inputs were prepared"
        for task, members in by_task.items()
        if all(row.chance_note for row in members)
    ]
