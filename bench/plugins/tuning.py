"""The task that judges the proposals of a search: the training samples that calibrate nothing, by fidelity.

A proposal is calibrated on the first training samples, judged on the others, and confirmed on the test split, so no
sample has two uses. Fidelity tells proposals apart by few samples, where a share of right answers needs thousands.
"""

from __future__ import annotations

from bench.api import Samples, Task
from bench.api.sized import tuning_of
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


def tuning(task: Task) -> Task:
    """The task that judges proposals for a task."""
    kind = type(f"Tuning{type(task).__name__}", (Tuning, type(task)), {})
    made: Task = kind(name=tuning_of(task.name), path=task.path)
    return made
