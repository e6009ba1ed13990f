"""Types of a task's inputs that an engine does not have."""

from collections.abc import Collection

from bench.api import Task


def lacking(task: Task, dtypes: Collection[str]) -> str | None:
    """The reason why an engine that has inputs of some types alone cannot run a task's model; None if it can."""
    others = [spec for spec in task.inputs if spec.dtype not in dtypes]
    return f"it has no {others[0].dtype}, and the input {others[0].name!r} is such" if others else None
