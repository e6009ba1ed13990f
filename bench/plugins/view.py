"""Tasks that are made of another task: it at other sizes, generating text with its model, judging by other samples."""

from __future__ import annotations

from typing import Any

from bench.api import Task
from bench.api.fidelity import FidelityTask
from bench.api.names import Role, TaskName


class View:
    """A task that has everything of another one but what its class or its maker defines.

    It counts as a `Task` without being derived from it, so that nothing but the other task answers what it does not
    define itself; the other task's methods know nothing of the view.

    Args:
        of: the other task.
        name: the view's name.
        own: attributes of the view, such as its inputs.
    """

    def __init__(self, of: Task, name: TaskName, **own: Any) -> None:
        self.of = of
        self.name = str(name)
        vars(self).update(own)

    @property
    def role(self) -> Role:
        """See `Task.role`."""
        return TaskName.parse(self.name).role

    @property
    def differs_by(self) -> object:
        """What tells the view from others that are made in the same way of the same task, as JSON."""
        return None

    def __getattr__(self, name: str) -> Any:
        # An error within a property of the view comes here, too, and stays one of the view.
        if name == "of" or name.startswith("_") or hasattr(type(self), name):
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return getattr(self.of, name)


Task.register(View)


class ByFidelity(View):
    """A view that is judged by fidelity, whatever judges the other task."""

    metric_name = FidelityTask.metric_name
    higher_is_better = FidelityTask.higher_is_better
    is_error_rate = FidelityTask.is_error_rate
    max_metric_loss = FidelityTask.max_metric_loss
    judges_other_shapes = FidelityTask.judges_other_shapes
    metric_loss_unit = FidelityTask.metric_loss_unit
    loss: Any = FidelityTask.loss
    metric: Any = FidelityTask.metric
    metrics: Any = FidelityTask.metrics
    points: Any = FidelityTask.points
    metric_loss: Any = FidelityTask.metric_loss
