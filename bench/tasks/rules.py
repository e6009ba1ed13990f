"""The rules by which an output may be compared with classes, and what the model's own answers tell about them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from bench.api import Arrays, ragged
from bench.api.errors import InputError
from bench.onnxfile.deferred import np
from bench.tasks import dataset

PROBABILITIES = 1e-6
"""Scores that lie in [0, 1] but for this much are probabilities."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """A way to compare an output with classes.

    Attributes:
        output: the output's name.
        axis: the axis of one sample's output along which the scores of classes lie, of an output with such an axis.
        num_classes: number of classes: size of that axis, 2 of a single score; None where the output holds classes.
        is_score: whether each target has a single score, which a threshold makes a class.
    """

    output: str
    axis: int | None = None
    num_classes: int | None = None
    is_score: bool = False

    def has_as_many(self, classes: np.ndarray) -> bool:
        """Whether the output has as many classes as the targets, or is no output of scores for each class."""
        if self.axis is None or classes.dtype.kind == "U":
            return True
        return self.num_classes == int(classes.max()) + 1


def rules_of(name: str, shape: tuple[int | str, ...], dtype: str, classes: np.ndarray) -> list[Rule]:
    """The ways to compare an output with classes; none where its shape or type is another.

    Args:
        name: the output's name.
        shape: its shape for one sample.
        dtype: its type.
        classes: targets, the samples along the first axis.

    Raises:
        InputError: the targets are no numbers of its classes, or their number is not known.
    """
    target = classes.shape[1:]
    if classes.dtype.kind == "U":
        return [Rule(output=name)] if dtype == "str" and dataset.fits_but_ones(shape, target) else []
    if dataset.fits_but_ones(shape, target):
        if dtype.startswith(("int", "uint", "bool")):
            return [Rule(output=name)]
        rules = [Rule(output=name, num_classes=2, is_score=True)] if dtype.startswith("float") else []
    else:
        axes = [axis for axis, size in enumerate(shape) if size != 1]
        axes = [axis for axis in axes if dataset.fits_but_ones((*shape[:axis], *shape[axis + 1 :]), target)]
        if not dtype.startswith("float"):
            axes = []
        unknown = [shape[axis] for axis in axes if isinstance(shape[axis], str)]
        if unknown:
            raise InputError(
                f"output {name!r} {shape} has an open number of classes, {unknown[0]}, and the model does not run here "
                "to show it; say the sizes of its inputs with --dim, or give a Python file"
            )
        sizes = {axis: size for axis in axes if isinstance(size := shape[axis], int)}
        rules = [Rule(output=name, axis=axis, num_classes=size) for axis, size in sizes.items()]
    return _in_range(rules, classes)


def _in_range(rules: Sequence[Rule], classes: np.ndarray) -> list[Rule]:
    """The rules of one output that have a class for each target.

    Raises:
        InputError: there are rules, and none has.
    """
    fitting_rules, refusals = [], []
    for rule in rules:
        try:
            _check_range(classes, rule)
            fitting_rules.append(rule)
        except InputError as error:
            refusals.append(error)
    if refusals and not fitting_rules:
        raise refusals[0]
    return fitting_rules


def _check_range(classes: np.ndarray, rule: Rule) -> None:
    """Refuse targets that are no numbers of an output's classes.

    Raises:
        InputError: a number is too large, or more than one is negative.
    """
    assert rule.num_classes is not None
    present = np.unique(classes)
    most = int(present[-1])
    allowed = f"output {rule.output!r} has "
    allowed += "one score for each target" if rule.is_score else f"{rule.num_classes} classes"
    allowed += f": 0 to {rule.num_classes - 1}"
    negative = [int(value) for value in present if value < 0]
    if _least_is_mark(present):
        raise InputError(f"every target is {most}, which marks what is left out: nothing is left to compare")
    if negative == [-1] and present.tolist() == [-1, 1] and rule.num_classes == 2:
        raise InputError(f"targets are -1 and 1; {allowed}; write 0 for -1, or -100 for what is left out")
    least = int(present[min(len(negative), len(present) - 1)])
    regression = "; for a regression give floats, or --metric rmse" if rule.is_score else ""
    if len(negative) > 1:
        raise InputError(
            f"targets run from {int(present[0])} to {most}; {allowed}; one negative number, such as -100, may mark "
            f"what is left out, and there are {len(negative)}: {', '.join(map(str, negative[:5]))}{regression}"
        )
    if most < rule.num_classes:
        return
    if least == 1 and most == rule.num_classes:
        fix = "the targets are counted from 1: subtract 1"
    else:
        fix = "leave such samples out, or write -100 for targets that are no class"
    fix += regression
    first = least if negative in ([-1], [-100]) else int(present[0])  # usual marks of what is left out
    raise InputError(f"targets run from {first} to {most}; {allowed}; {fix}")


def _least_is_mark(present: np.ndarray) -> bool:
    """Whether all targets are one negative number."""
    return len(present) == 1 and bool(present[0] < 0)


class Observed:
    """The outputs of the model for the first samples, computed when they are needed for the first time.

    Args:
        observe: runs the model; outputs by name with the samples along the first axis, or None where it does not run.
    """

    def __init__(self, observe: Callable[[], Arrays | None]) -> None:
        self._observe = observe
        self._outputs: Arrays | None = None
        self._is_known = False

    def outputs(self) -> Arrays | None:
        """The outputs by name; None where the model does not run here."""
        if not self._is_known:
            self._outputs, self._is_known = self._observe(), True
        return self._outputs

    def values(self, name: str, shape: Sequence[int]) -> np.ndarray | None:
        """An output in the targets' shape; None where it is unknown, or has another number of values."""
        outputs = self.outputs()
        if outputs is None or outputs[name].size != math.prod(shape) * len(outputs[name]):
            return None
        return outputs[name].reshape(-1, *shape)

    def are_probabilities(self, name: str) -> bool:
        """Whether the scores of an output lie in [0, 1]."""
        outputs = self.outputs()
        assert outputs is not None
        return bool((outputs[name] >= -PROBABILITIES).all() and (outputs[name] <= 1 + PROBABILITIES).all())

    def predicted(self, rule: Rule, classes: np.ndarray) -> np.ndarray | None:
        """The classes that an output says by a rule, in the targets' shape; None where they are unknown."""
        outputs = self.outputs()
        if outputs is None:
            return None
        output = outputs[rule.output]
        if rule.axis is not None:
            output = output.argmax(axis=rule.axis + 1)
        elif rule.is_score:
            output = output > (0.5 if self.are_probabilities(rule.output) else 0.0)
        number = len(output)
        return output.reshape(number, *classes.shape[1:]) if output.size == classes[:number].size else None

    def is_credible(self, rule: Rule, classes: np.ndarray) -> bool:
        """Whether an output says the targets of the first samples more often than the most frequent class is right."""
        predicted = self.predicted(rule, classes)
        if predicted is None:
            return False
        right = classes[: len(predicted)]
        counted = np.ones(right.shape, bool) if right.dtype.kind != "i" else right >= min(0, int(predicted.min()))
        if not counted.any():
            return False
        share = float(np.unique(right[counted], return_counts=True)[1].max() / counted.sum())
        error = math.sqrt(share * (1 - share) / len(right))  # places of one sample are no independent answers
        return float((predicted == right)[counted].mean()) > share + 2 * error

    def share_right(self, rule: Rule, classes: np.ndarray) -> str:
        """How often an output is right for the first samples, as the end of its name; empty where that is unknown."""
        predicted = self.predicted(rule, classes)
        if predicted is None:
            return ""
        return f" (right in {100 * float(np.mean(predicted == classes[: len(predicted)])):.0f} %)"


def agree(each: Sequence[np.ndarray | None]) -> bool:
    """Whether all outputs are known and say the same."""
    first = each[0]
    return first is not None and all(other is not None and ragged.equal(first, other) for other in each)


def one_hot_axes(classes: np.ndarray) -> list[int]:
    """The axes, after that of the samples, along which each place has a 1 among zeros."""
    if classes.dtype.kind == "U" or classes.min() < 0:
        return []
    axes = range(1, classes.ndim)
    return [axis for axis in axes if classes.shape[axis] > 1 and bool((classes.sum(axis=axis) == 1).all())]
