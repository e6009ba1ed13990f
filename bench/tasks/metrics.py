"""Metrics for data sets with targets. The generated class of a task inherits from one of these classes first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from bench.api import Arrays, Points, Task, TensorSpec
from bench.api.errors import InputError
from bench.graphs.deferred import np
from bench.tasks import dataset
from bench.tasks.user_task import OwnTask


class JudgedTask(OwnTask):
    """A task whose metric has targets, so that its relative loss is that of any task, not that of fidelity."""

    relative_loss = Task.relative_loss


class Accuracy(JudgedTask):
    """The share of targets, which are numbers of classes, that an output has right; the loss is the share of others.

    Where a sample has several targets, its points are the share of them that is right.
    """

    metric_name = "accuracy"
    max_metric_loss = 0.5
    judged: ClassVar[str]
    """The output that is compared: classes themselves, or scores of each class."""

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        return 1 - self.metrics(outputs, targets)["accuracy"]

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        if not np.isfinite(outputs[self.judged]).all():
            return {"accuracy": math.nan}
        return {"accuracy": float(np.mean(self._is_right(outputs, targets)))}

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        values = self._is_right(outputs, targets).reshape(len(targets), -1).mean(axis=1)
        return Points(values=values, score=float(values.mean()), most=1.0)

    def _is_right(self, outputs: Arrays, targets: Sequence[Any]) -> np.ndarray:
        output, expected = outputs[self.judged], np.stack(targets)
        if output.ndim > expected.ndim:
            axis = class_axis(output.shape[1:], expected.shape[1:])
            assert axis is not None, "judge_of chose an output with such an axis"
            output = output.argmax(axis=axis + 1)
        return output == expected


class Rmse(JudgedTask):
    """The root of the mean squared error of an output; the loss is its square."""

    metric_name = "rmse"
    higher_is_better = False
    max_metric_loss = math.inf
    judged: ClassVar[str]
    """The output that is compared."""

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        with np.errstate(over="ignore"):
            return float(np.mean((outputs[self.judged].astype(np.float64) - np.stack(targets)) ** 2))

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        return {"rmse": math.sqrt(self.loss(outputs, targets))}

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        """Half of each sample's squared error, lost: a root grows by at most half of the share that its square grows.

        An error has no largest value, so the most that a sample can lose is taken from the targets: an output is taken
        to be no worse than the mean of all targets is for the target that is farthest from it.
        """
        expected = np.stack(targets).astype(np.float64)
        errors = (outputs[self.judged].astype(np.float64) - expected) ** 2
        errors_N, spread_N = (
            values.reshape(len(targets), -1).mean(axis=1)
            for values in (errors, (expected - expected.mean(axis=0)) ** 2)
        )
        return Points(values=-errors_N / 2, score=float(errors_N.mean()), most=float(spread_N.max()) / 2)


class OwnMetrics(JudgedTask):
    """A task with the samples and metrics of a Python file, which defines all of `dataset.NEEDED`.

    With its optional function `per_sample`, the metric has an interval.
    """

    max_metric_loss = math.inf
    data: ClassVar[str]
    """The file's path."""

    def drawn(self, split: str) -> tuple[Arrays, Sequence[Any] | None, list[int]]:
        inputs, targets = dataset.from_python(Path(self.data), "test" if split == "test" else "train")
        arrays = dataset.fitted(inputs, self.inputs, batched=self.batched, what=self.data)
        return arrays, targets, self.fitting(list(range(len(next(iter(arrays.values()))))), split)

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        loss = getattr(dataset.module(Path(self.data)), "loss", None)
        return float(loss(outputs, targets)) if loss else math.nan

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        found = dataset.module(Path(self.data)).metrics(outputs, targets)
        if not isinstance(found, Mapping) or self.metric_name not in found:
            raise InputError(f"{self.data}: metrics() must return a dict with {self.metric_name!r}, its metric_name")
        return {str(name): float(value) for name, value in found.items()}

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        """The values of the file's `per_sample`, down to its `worst`.

        Raises:
            InputError: they are not one number for each sample with the metric as their mean.
        """
        module = dataset.module(Path(self.data))
        if not hasattr(module, "per_sample"):
            return f"{Path(self.data).name} has no per_sample(outputs, targets)"
        values = np.asarray(module.per_sample(outputs, targets), np.float64)
        metric = self.metrics(outputs, targets)[self.metric_name]
        if values.shape != (len(targets),) or not math.isclose(values.mean(), metric, rel_tol=1e-6, abs_tol=1e-9):
            raise InputError(
                f"{self.data}: per_sample() must return {len(targets)} numbers, whose mean is {self.metric_name}, "
                f"{metric:.6g}; it returns shape {values.shape}, mean {values.mean() if values.size else math.nan:.6g}"
            )
        if self.higher_is_better or self.is_error_rate:
            worst = float(getattr(module, "worst", 0.0 if self.higher_is_better else 1.0))
        elif hasattr(module, "worst"):
            worst = float(module.worst)
        else:
            return f"{Path(self.data).name} does not say how bad a sample can be: worst = ..."
        sign = 1 if self.higher_is_better else -1
        score = 1 - metric if self.is_error_rate else abs(metric)
        return Points(values=sign * values, score=score, most=float(np.abs(values - worst).max()))


def class_axis(output: Sequence[Any], target: Sequence[Any]) -> int | None:
    """The axis of one sample's output that holds the scores of classes, or None.

    Without this axis, the output has the shape of the target; the last axis is tried before the first.
    """
    for axis in (len(output) - 1, 0):
        if len(output) and dataset.fits([*output[:axis], *output[axis + 1 :]], target):
            return axis
    return None


def judge_of(
    targets: np.ndarray, outputs: Sequence[TensorSpec], *, batched: bool, sizes: Mapping[str, int]
) -> tuple[type[OwnTask], str]:
    """The class that compares targets with an output, and the name of the output: the first that fits.

    Args:
        targets: the targets of all samples, stacked along the first axis.
        outputs: specs of the model's outputs.
        batched: whether the first axis of each output is that of the samples.
        sizes: sizes of dynamic dimensions, as far as they are known.

    Raises:
        InputError: the targets fit no output.
    """
    shape = targets.shape[1:]
    for spec in outputs:
        form = [sizes.get(str(dim), dim) for dim in (spec.shape[1:] if batched else spec.shape)]
        if targets.dtype.kind in "iub":
            if dataset.fits(form, shape) and spec.dtype[0] in "uib":
                return Accuracy, spec.name
            if len(form) == len(shape) + 1 and spec.dtype.startswith("float") and class_axis(form, shape) is not None:
                return Accuracy, spec.name
        elif targets.dtype.kind == "f" and dataset.fits(form, shape) and spec.dtype.startswith("float"):
            return Rmse, spec.name
    shapes = ", ".join(f"{spec.name} {spec.shape}" for spec in outputs)
    raise InputError(
        f"targets of shape {targets.shape} and {targets.dtype} fit no output ({shapes}): integers are classes, one for "
        "each sample or place in it; floats are an output's right values; for all else give a Python file"
    )
