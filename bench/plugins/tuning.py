"""The tasks that judge what a search tries: by training samples that calibrate nothing, then by all held-out samples.

A proposal is calibrated on the first training samples, judged on the others, and confirmed on the test split, so no
sample has two uses. Fidelity tells proposals apart by few samples, where a share of right answers needs thousands.
"""

from __future__ import annotations

from bench.api import Samples, Task
from bench.api.sized import confirming_of, tuning_of
from bench.plugins.engines.calibration import num_calibration
from bench.plugins.resized import ByFidelity


class Tuning(ByFidelity):
    """What such a task does in its own way; the class of the task itself comes after it."""

    def samples(self, split: str) -> Samples:
        """Of the task's training samples, those that calibrate as `train`, and the others as `test`."""
        samples = super().samples("train")  # type: ignore[safe-super]  # the class of the task comes next
        number = num_calibration(samples.num_samples)
        rows = slice(None, number) if split == "train" or number == samples.num_samples else slice(number, None)
        inputs = {name: array[rows] for name, array in samples.inputs.items()}
        return Samples(inputs=inputs, targets=None, names=samples.names[rows])


class Confirming(Task):
    """What a task does in its own way that has all held-out samples as its test split."""

    def samples(self, split: str) -> Samples:
        """The task's training samples, or all held-out samples as `test`."""
        more = self.confirmation() if split == "test" else None
        return super().samples(split) if more is None else more  # type: ignore[safe-super]


def tuning(task: Task) -> Task:
    """The task that judges proposals for a task."""
    return _made(Tuning, tuning_of(task.name), task)


def confirming(task: Task) -> Task:
    """The task that judges by all held-out samples of a task."""
    return _made(Confirming, confirming_of(task.name), task)


def _made(way: type[Task], name: str, task: Task) -> Task:
    kind = type(f"{way.__name__}{type(task).__name__}", (way, type(task)), {})
    made: Task = kind(name=name, path=task.path)
    return made
