"""The tasks that judge what a search tries: by training samples that calibrate nothing, then by all held-out samples.

A proposal is calibrated on the first training samples, judged on the others, and confirmed on the test split, so no
sample has two uses. Fidelity tells proposals apart by few samples, where a share of right answers needs thousands; what
they lose of the task's own metric there tells which are worth being confirmed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, cast

from bench.api import Arrays, Samples, Task, ragged
from bench.api.fidelity import FidelityTask
from bench.api.loss_units import DB, SHARE, Unit
from bench.api.names import Role, TaskName
from bench.plugins.engines.calibration import num_calibration
from bench.plugins.view import ByFidelity, View

LOST: Mapping[Unit, str] = {SHARE: "metric_loss", DB: "metric_loss_db"}
"""Name, among the metrics of such a task, of what outputs lose of the task's own metric, by its unit."""


class Tuning(ByFidelity):
    """A task that is judged by training samples which calibrate nothing."""

    def samples(self, split: str) -> Samples:
        """Of the task's training samples, those that calibrate as `train`, and the others as `test`."""
        samples, rows = self._part(split)
        inputs = {name: array[rows] for name, array in samples.inputs.items()}
        return Samples(inputs=inputs, targets=None, names=samples.names[rows])

    def metrics(self, outputs: Arrays, targets: Sequence[Arrays]) -> dict[str, float]:
        """Fidelity, and where the samples have labels one of `LOST`, against the reference's outputs."""
        figures = FidelityTask.metrics(self, outputs, targets)  # type: ignore[arg-type]  # it asks nothing of the task
        labels = self._labels
        if labels is not None and len(labels) == len(targets):
            expected = {name: ragged.stacked(target[name] for target in targets) for name in targets[0]}
            own, right = (float(self.of.metric(arrays, labels)) for arrays in (outputs, expected))
            figures[LOST[self.of.metric_loss_unit]] = float(self.of.metric_loss(own, right))
        return figures

    @functools.cached_property
    def _labels(self) -> Sequence[Any] | None:
        samples, rows = self._part("test")
        return None if samples.targets is None else samples.targets[rows]

    def _part(self, split: str) -> tuple[Samples, slice]:
        """The samples that a split is taken from, and which of them."""
        further = self.of.judging() if split == "test" else None
        if further is not None:
            return further, slice(None)
        samples = self.of.samples("train")
        number = num_calibration(samples.num_samples)
        return samples, slice(None, number) if split == "train" or number == samples.num_samples else slice(
            number, None
        )


class Confirming(View):
    """A task whose test split has all held-out samples."""

    def samples(self, split: str) -> Samples:
        """The task's training samples, or all held-out samples as `test`."""
        more = self.of.confirmation() if split == "test" else None
        return self.of.samples(split) if more is None else more


def tuning(task: Task) -> Task:
    """The task that judges proposals for a task."""
    return cast(Task, Tuning(task, TaskName(task.name, Role.TUNING)))


def confirming(task: Task) -> Task:
    """The task that judges by all held-out samples of a task."""
    return cast(Task, Confirming(task, TaskName(task.name, Role.CONFIRMATION)))
