"""Metrics for data sets with targets. The generated class of a task inherits from one of these classes first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from bench.api import Arrays, Points, Task, ragged
from bench.api.errors import InputError
from bench.onnxfile.deferred import np
from bench.tasks import dataset
from bench.tasks.user_task import OwnTask

_FEW = 8
"""Samples, fewer of which tell nothing of the most frequent class of each place."""


class JudgedTask(OwnTask):
    """A task whose metric has targets, so that its loss is that of any task, not that of fidelity."""

    metric_loss = Task.metric_loss


class ByOutput(JudgedTask):
    """A task that compares one output with targets, in one shape for all samples."""

    judged: ClassVar[str]
    """The output that is compared."""

    def _output(self, outputs: Arrays) -> np.ndarray:
        """The output that is compared.

        Raises:
            InputError: its shape depends on the data of the samples.
        """
        output = outputs[self.judged]
        if ragged.is_ragged(output):
            raise InputError(other_shapes(self.judged, output))
        return output


def other_shapes(name: str, output: np.ndarray) -> str:
    """What to say of an output whose samples have several shapes, where targets are compared in one."""
    shapes = sorted({np.shape(sample) for sample in output})
    return (
        f"output {name!r} has shapes from {shapes[0]} to {shapes[-1]} by the data of the sample, and targets are "
        "compared in one shape: give a Python file with metrics(outputs, targets), or name another output with --output"
    )


class Accuracy(ByOutput):
    """The share of targets, which are classes, that an output has right; the loss is the share of others.

    Where a sample has several targets, its points are the number of them that is right, in units of the mean number of
    targets of a sample.
    """

    metric_name = "accuracy"
    max_metric_loss = 0.5
    judged: ClassVar[str]
    """The output that is compared: classes themselves, scores of each class, or a single score. Where a score is NaN,
    no target is right."""
    axis: ClassVar[int | None] = None
    """The axis of one sample's output along which the scores of classes lie; None where there is none."""
    threshold: ClassVar[float | None] = None
    """The score above which an output with a single score for each target says class 1."""
    ignored: ClassVar[int | None] = None
    """The target that marks what is left out."""

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        return 1 - self.metrics(outputs, targets)["accuracy"]

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        right, counted = self._right_and_counted(outputs, targets)
        return {"accuracy": float(right.sum() / counted.sum()) if counted.any() else math.nan}

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        right, counted = (
            flags.reshape(len(targets), -1).sum(axis=1) for flags in self._right_and_counted(outputs, targets)
        )
        if not counted.any():
            return "no sample of the held-out split has a target that counts"
        values = right / counted.mean()
        return Points(values=values, score=float(values.mean()), most=float(counted.max() / counted.mean()))

    def chance(self, targets: Sequence[Any]) -> float | None:
        """The share that is right where each place has its most frequent class, and two standard errors.

        Places of few samples have one class for all places. Places of one sample are no independent answers, so the
        standard error is that of as many answers as there are samples.

        Source: the standard error of a share, sqrt(p (1 - p) / n).
        """
        expected = np.stack(targets).reshape(len(targets), -1)
        counted = self._counted(expected)
        number = int(counted.sum())
        if not number:
            return None
        if len(targets) < _FEW:
            expected, counted = expected.reshape(-1, 1), counted.reshape(-1, 1)
        most = np.zeros(expected.shape[1], np.int64)
        for value in np.unique(expected[counted]):
            most = np.maximum(most, ((expected == value) & counted).sum(axis=0))
        share = float(most.sum()) / number
        return min(1.0, share + 2 * math.sqrt(share * (1 - share) / len(targets)))

    def _counted(self, expected: np.ndarray) -> np.ndarray:
        return np.ones(expected.shape, bool) if self.ignored is None else expected != self.ignored

    def _right_and_counted(self, outputs: Arrays, targets: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Whether each target is right, and whether it counts."""
        scores, expected = self._output(outputs), np.stack(targets)
        output, is_unknown = scores, np.isnan(scores) if scores.dtype.kind == "f" else np.zeros(scores.shape, bool)
        if self.axis is not None:
            output, is_unknown = scores.argmax(axis=self.axis + 1), is_unknown.any(axis=self.axis + 1)
        elif self.threshold is not None:
            output = scores > self.threshold
        counted = self._counted(expected)
        is_right = (output.reshape(expected.shape) == expected) & ~is_unknown.reshape(expected.shape)
        return is_right & counted, counted


class Rmse(ByOutput):
    """The root of the mean squared error of an output; the loss is its square."""

    metric_name = "rmse"
    higher_is_better = False
    max_metric_loss = math.inf

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        with np.errstate(over="ignore"):
            return float(np.mean(self._errors(outputs, np.stack(targets)) ** 2))

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        return {"rmse": math.sqrt(self.loss(outputs, targets))}

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        """Half of each sample's squared error, lost: a root grows by at most half of the share that its square grows.

        An error has no largest value, so the most that a sample can lose is taken from the targets: an output is taken
        to be no worse than the mean of all targets is for the target that is farthest from it.
        """
        expected = np.stack(targets).astype(np.float64)
        errors = self._errors(outputs, expected) ** 2
        errors_N, spread_N = (
            values.reshape(len(targets), -1).mean(axis=1)
            for values in (errors, (expected - expected.mean(axis=0)) ** 2)
        )
        taken = "an output is taken to be no worse than the mean of all targets"
        most = float(spread_N.max()) / 2
        return Points(values=-errors_N / 2, score=float(errors_N.mean()), most=most, convention=taken)

    def chance(self, targets: Sequence[Any]) -> float | None:
        """The error of the mean of all targets, less two standard errors of a standard deviation.

        Source: the standard error of a standard deviation of normal values, sd / sqrt(2 n).
        """
        expected = np.stack(targets).astype(np.float64)
        spread = math.sqrt(float(np.mean((expected - expected.mean(axis=0)) ** 2)))
        return spread * max(0.0, 1 - 2 / math.sqrt(2 * len(targets)))

    def _errors(self, outputs: Arrays, expected: np.ndarray) -> np.ndarray:
        errors: np.ndarray = self._output(outputs).astype(np.float64).reshape(expected.shape) - expected
        return errors


class OwnMetrics(JudgedTask):
    """A task with the samples and metrics of a Python file, which defines all of `dataset.NEEDED`.

    With its optional function `per_sample`, the metric has an interval.
    """

    max_metric_loss = math.inf
    judges_other_shapes = True
    data: ClassVar[str]
    """The file's path."""

    def drawn(self, split: str) -> tuple[Arrays, Sequence[Any] | None, list[int]]:
        self.refuse_changed()
        inputs, targets = dataset.from_python(Path(self.data), "test" if split == "test" else "train")
        arrays = dataset.fitted(inputs, self.inputs, batched=self.batched, what=self.data)
        return arrays, targets, self.fitting(list(range(len(next(iter(arrays.values()))))), split)

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        loss = getattr(dataset.module(Path(self.data)), "loss", None)
        return float(loss(outputs, targets)) if loss else math.nan

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        figures = dataset.module(Path(self.data)).metrics(outputs, targets)
        if not isinstance(figures, Mapping) or self.metric_name not in figures:
            raise InputError(f"{self.data}: metrics() must return a dict with {self.metric_name!r}, its metric_name")
        return {str(name): float(value) for name, value in figures.items()}

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
