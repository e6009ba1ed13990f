"""How the targets of a data set are compared with a model's outputs: which output, which metric, and by which rule."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.api import Arrays, TensorSpec
from bench.api.errors import InputError
from bench.graphs.deferred import np
from bench.tasks import dataset, metrics

ACCURACY, RMSE = "accuracy", "rmse"
METRICS = "accuracy (the largest score, or a score above its threshold), accuracy@0.5 (a score above 0.5) and rmse"
ASKED = re.compile(r"(accuracy)(?:@([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?))?|rmse", re.IGNORECASE)
PADDING = -100
"""The label that PyTorch's cross entropy ignores by default: no model's class, whatever the output is."""
PROBABILITIES = 1e-6
"""Scores that lie in [0, 1] but for this much are probabilities."""
SHIFTED = 0.5
"""Share of right answers from which on targets that are counted from another number are recognized."""
NUM_OBSERVED = 64
"""Samples that the model is run on where the shapes and types of its outputs do not tell how they are compared."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    """The metric and the output that the user named.

    Attributes:
        metric: `accuracy` or `rmse`; None for the metric that fits the type of the targets.
        threshold: the score above which an output with a single score says class 1; None for the usual threshold.
        output: name of the output to judge; None for the output that fits.
    """

    metric: str | None = None
    threshold: float | None = None
    output: str | None = None

    @staticmethod
    def of(metric: str | None, output: str | None) -> Wanted:
        """Read the values of the options `--metric` and `--output`.

        Raises:
            InputError: there is no such metric.
        """
        if metric is None:
            return Wanted(output=output)
        match = ASKED.fullmatch(metric)
        if match is None:
            raise InputError(f"no metric {metric!r}; --metric takes {METRICS}; for all else give a Python file")
        threshold = float(match[2]) if match[2] else None
        return Wanted(metric=metric.partition("@")[0].lower(), threshold=threshold, output=output)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judge:
    """How a task's outputs are judged.

    Attributes:
        kind: the class that a generated task inherits from first.
        attributes: its class attributes.
        targets: the targets in the form that `kind` takes: the samples along the first axis.
        note: a line that tells the user what is judged, and how to change it.
    """

    kind: type[metrics.JudgedTask]
    attributes: Mapping[str, Any]
    targets: np.ndarray
    note: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Rule:
    """A way to compare an output with the targets.

    Attributes:
        output: the output's name.
        axis: the axis of one sample's output along which the scores of classes lie, of an output with such an axis.
        num_classes: size of that axis; 2 for an output with a single score; None where the output holds classes.
        is_score: whether each target has a single score, which a threshold makes a class.
    """

    output: str
    axis: int | None = None
    num_classes: int | None = None
    is_score: bool = False


def judge_of(
    targets: np.ndarray,
    outputs: Sequence[TensorSpec],
    *,
    batched: bool,
    sizes: Mapping[str, int],
    observe: Callable[[], Arrays | None],
    wanted: Wanted = Wanted(),
    data: str = "the data set",
) -> Judge:
    """Choose how targets are compared with the outputs of a model.

    Integers, bools and texts are classes: accuracy. An output holds the classes themselves, the score of each class, or
    a single score, of which a threshold makes class 0 or 1. Floats are the right values of an output: RMSE.

    Args:
        targets: the targets of all samples, along the first axis.
        outputs: specs of the model's outputs.
        batched: whether the first axis of each output is that of the samples.
        sizes: sizes of dynamic dimensions, as far as they are known.
        observe: runs the model on the first samples; outputs by name with the samples along the first axis, or None
            where it does not run. It is called where shapes and types alone do not tell.
        wanted: the metric and the output that the user named.
        data: the data set, as messages name it.

    Raises:
        InputError: the targets fit no output, or more than one, or are no numbers of its classes; the message says
            which are, and the option or the change that mends it.
    """
    if not targets.size:
        raise InputError(f"{data}: targets hold no value: shape {targets.shape}")
    metric = wanted.metric or (RMSE if targets.dtype.kind == "f" else ACCURACY)
    known = [spec.name for spec in outputs]
    if wanted.output is not None and wanted.output not in known:
        raise InputError(f"the model has no output {wanted.output!r} to judge; its outputs: {', '.join(known)}")
    shapes = {
        spec.name: tuple(sizes.get(str(dim), dim) for dim in (spec.shape[1:] if batched else spec.shape))
        for spec in outputs
        if wanted.output in (None, spec.name)
    }
    dtypes = {spec.name: spec.dtype for spec in outputs}
    observed = _Observed(observe)
    if any(isinstance(dim, str) for shape in shapes.values() for dim in shape) and (seen := observed.outputs()):
        shapes = {name: seen[name].shape[1:] for name in shapes}
    if metric == RMSE:
        return _rmse(targets, shapes, dtypes, observed, data)
    return _accuracy(_as_classes(targets, data), shapes, dtypes, observed, wanted, data)


class _Observed:
    """The outputs of the model for the first samples, computed when they are needed for the first time."""

    def __init__(self, observe: Callable[[], Arrays | None]) -> None:
        self._observe = observe
        self._outputs: Arrays | None = None
        self._is_known = False

    def outputs(self) -> Arrays | None:
        if not self._is_known:
            self._outputs, self._is_known = self._observe(), True
        return self._outputs


def _rmse(
    targets: np.ndarray,
    shapes: Mapping[str, tuple[int | str, ...]],
    dtypes: Mapping[str, str],
    observed: _Observed,
    data: str,
) -> Judge:
    """Judge by the error of an output of the targets' shape."""
    if targets.dtype.kind not in "fiub":
        raise InputError(f"{data}: targets hold {targets.dtype}; rmse takes numbers")
    values = targets.astype(np.float64)
    if num_bad := int(np.count_nonzero(~np.isfinite(values))):
        raise InputError(f"{data}: {num_bad:,} of {values.size:,} targets are not finite; leave such samples out")
    fitting = [
        name for name, shape in shapes.items() if dtypes[name].startswith("float") and _same(shape, targets.shape[1:])
    ]
    if not fitting:
        raise _fits_none(targets, shapes, dtypes, data, "floats are the right values of an output of their shape")
    (name, *others) = fitting
    if others and not _agree([_values(observed, output, values.shape) for output in fitting]):
        raise _several(fitting, "their shape", data)
    text = f"the error of output {name!r}"
    return Judge(
        kind=metrics.Rmse,
        attributes={"judged": name, "judged_as": text},
        targets=values.astype(targets.dtype if targets.dtype.kind == "f" else np.float64),
        note=f"rmse is {text}{_not_judged(shapes, name)}",
    )


def _accuracy(
    classes: np.ndarray,
    shapes: Mapping[str, tuple[int | str, ...]],
    dtypes: Mapping[str, str],
    observed: _Observed,
    wanted: Wanted,
    data: str,
) -> Judge:
    """Judge by the share of targets that an output has right."""
    rules, refusals = [], []
    for name, shape in shapes.items():
        try:
            rule = _rule(name, shape, dtypes[name], classes)
        except InputError as error:
            refusals.append(f"{data}: {error}")
            continue
        if rule is not None:
            rules.append(rule)
    if not rules:
        if refusals:
            raise InputError(refusals[0])
        raise _fits_none(classes, shapes, dtypes, data, "integers are classes, one for each sample or place in it")
    rule = _only(rules, classes, observed, data)
    is_one_hot = rule.is_score and _is_one_hot(classes)
    if is_one_hot:
        classes = classes.argmax(axis=-1)
        shape = shapes[rule.output]
        last = max(axis for axis, size in enumerate(shape) if size != 1)
        rule = dataclasses.replace(rule, axis=last, num_classes=None, is_score=False)
    ignored = _ignored(classes, rule)
    if wanted.metric is None or wanted.output is None:  # who names both needs no guess at what is meant
        _refuse_shifted(classes, ignored, rule, observed, data)
    threshold, why = _threshold(rule, observed, wanted)
    text = f"output {rule.output!r}"
    if rule.is_score:
        text += f" above {threshold:g}"
    elif rule.axis is not None:
        many = "" if rule.num_classes is None else f" of {rule.num_classes}"
        text = f"the class with the largest{many} scores of {text}"
    if is_one_hot:
        text += ", beside one-hot targets"
    if ignored is not None:
        left_out = np.count_nonzero(classes == ignored)
        text += f"; {left_out:,} of {classes.size:,} targets are {ignored}, which is no class, and are left out"
    attributes = {"judged": rule.output, "axis": rule.axis, "threshold": threshold, "ignored": ignored}
    return Judge(
        kind=metrics.Accuracy,
        attributes={**{key: value for key, value in attributes.items() if value is not None}, "judged_as": text},
        targets=classes,
        note=f"accuracy compares {text}{why}{_not_judged(shapes, rule.output)}",
    )


def _as_classes(targets: np.ndarray, data: str) -> np.ndarray:
    """Targets as classes: integers stay, bools and whole floats become integers, texts stay.

    Raises:
        InputError: they are other values.
    """
    if targets.dtype.kind in "iuU":
        return targets
    if targets.dtype.kind == "b":
        return targets.astype(np.int64)
    if targets.dtype.kind == "f" and np.isfinite(targets).all() and (targets == np.round(targets)).all():
        return targets.astype(np.int64)
    raise InputError(f"{data}: targets hold {targets.dtype}; accuracy takes whole numbers, the numbers of classes")


def _rule(name: str, shape: tuple[int | str, ...], dtype: str, classes: np.ndarray) -> _Rule | None:
    """The way to compare an output with classes; None where its shape or type is another.

    Raises:
        InputError: the targets are no numbers of its classes.
    """
    target = classes.shape[1:]
    if classes.dtype.kind == "U":
        return _Rule(output=name) if dtype == "str" and _same(shape, target) else None
    if _same(shape, target):
        if dtype.startswith(("int", "uint", "bool")):
            return _Rule(output=name)
        if not dtype.startswith("float"):
            return None
        rule = _Rule(output=name, num_classes=2, is_score=True)
        _check_range(classes, rule)
        return rule
    axes = [axis for axis, size in enumerate(shape) if size != 1 and _same((*shape[:axis], *shape[axis + 1 :]), target)]
    if not axes or not dtype.startswith("float"):
        return None
    if len(axes) > 1:
        raise InputError(
            f"output {name!r} has shape {shape} for each sample and the targets have {target}: the scores of the "
            f"classes may lie along any of its axes {', '.join(map(str, axes))}; give a Python file with "
            "metrics(outputs, targets)"
        )
    size = shape[axes[0]]
    rule = _Rule(output=name, axis=axes[0], num_classes=size if isinstance(size, int) else None)
    _check_range(classes, rule)
    return rule


def _check_range(classes: np.ndarray, rule: _Rule) -> None:
    """Refuse targets that are no numbers of an output's classes.

    Raises:
        InputError: a number is too large, or more than one is negative.
    """
    if rule.num_classes is None:
        return
    present = np.unique(classes)
    most = int(present[-1])
    allowed = f"output {rule.output!r} has "
    allowed += "one score for each target" if rule.is_score else f"{rule.num_classes} classes"
    allowed += f": 0 to {rule.num_classes - 1}"
    negative = [int(value) for value in present if value < 0]
    if negative == [-1] and most == 1 and 0 not in present:
        raise InputError(f"targets are -1 and 1; {allowed}; write 0 for -1")
    least = int(present[len(negative)]) if len(negative) < len(present) else None
    if least is None or len(negative) > 1:
        raise InputError(
            f"targets run from {int(present[0])} to {most}; {allowed}; one negative number, such as {PADDING}, may "
            "mark what is left out"
        )
    if most < rule.num_classes:
        return
    if rule.is_score:
        fix = "for a regression give floats, or --metric rmse"
    elif least == 1 and most == rule.num_classes:
        fix = "the targets are counted from 1: subtract 1"
    else:
        fix = f"subtract their least number, or write {PADDING} for what is no class and is to be left out"
    raise InputError(f"targets run from {least} to {most}; {allowed}; {fix}")


def _ignored(classes: np.ndarray, rule: _Rule) -> int | None:
    """The target that marks what is left out: a negative number, which is no class of scores; None where there is none.

    An output that holds classes may hold negative ones, as those of some estimators do; none of them is -100.
    """
    if classes.dtype.kind not in "i":
        return None
    least = int(classes.min())
    is_mark = least < 0 if rule.axis is not None or rule.is_score else least == PADDING
    return least if is_mark else None


def _only(rules: Sequence[_Rule], classes: np.ndarray, observed: _Observed, data: str) -> _Rule:
    """The one rule that is left: of the outputs with as many classes as the targets have, or of all that fit.

    Raises:
        InputError: several outputs are left, which do not say the same.
    """
    if classes.dtype.kind != "U":
        num_classes = int(classes.max()) + 1
        exact = [rule for rule in rules if rule.num_classes is None or rule.is_score or rule.num_classes == num_classes]
        rules = exact or rules
    if len(rules) > 1 and not _agree([_predicted(rule, observed, classes) for rule in rules]):
        raise _several([rule.output for rule in rules], "the classes", data)
    return rules[0]


def _predicted(rule: _Rule, observed: _Observed, classes: np.ndarray) -> np.ndarray | None:
    """The classes that an output says of the first samples, in the targets' shape; None where they are unknown."""
    outputs = observed.outputs()
    if outputs is None:
        return None
    output = outputs[rule.output]
    if rule.axis is not None:
        output = output.argmax(axis=rule.axis + 1)
    elif rule.is_score:
        output = output > (0.5 if _are_probabilities(output) else 0.0)
    number = len(output)
    return output.reshape(number, *classes.shape[1:]) if output.size == classes[:number].size else None


def _values(observed: _Observed, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """The values of an output for the first samples; None where they are unknown."""
    outputs = observed.outputs()
    if outputs is None or outputs[name].size != math.prod(shape[1:]) * len(outputs[name]):
        return None
    return outputs[name].reshape(-1, *shape[1:])


def _agree(each: Sequence[np.ndarray | None]) -> bool:
    """Whether all outputs are known and say the same."""
    first = each[0]
    return first is not None and all(other is not None and np.array_equal(first, other) for other in each)


def _refuse_shifted(classes: np.ndarray, ignored: int | None, rule: _Rule, observed: _Observed, data: str) -> None:
    """Refuse numbers of classes that are counted from another number than the model's.

    Only where class 0 or the last class never occurs can they be: then the model's answers tell.

    Raises:
        InputError: the model is right far more often where 1 is added or subtracted.
    """
    if rule.axis is None or classes.dtype.kind == "U" or rule.num_classes is None:
        return
    kept = classes if ignored is None else classes[classes != ignored]
    shifts = [shift for shift, end in ((-1, kept.min() > 0), (1, kept.max() < rule.num_classes - 1)) if end]
    predicted = _predicted(rule, observed, classes) if shifts else None
    if predicted is None:
        return
    right = classes[: len(predicted)].astype(np.int64)
    is_kept = np.ones(right.shape, bool) if ignored is None else right != ignored
    if not is_kept.any():
        return
    as_is = float(np.mean((predicted == right)[is_kept]))
    for shift in shifts:
        agreed = float(np.mean((predicted == right + shift)[is_kept]))
        if agreed >= SHIFTED and as_is < agreed / 2:
            raise InputError(
                f"{data}: targets run from {int(kept.min())} to {int(kept.max())}; output {rule.output!r} has "
                f"{rule.num_classes} classes: 0 to {rule.num_classes - 1}; on the first {len(predicted)} samples the "
                f"model is right in {100 * as_is:.0f} % as they are, and in {100 * agreed:.0f} % with "
                f"{'1 added' if shift > 0 else '1 subtracted'}: number them from 0 as the model does"
            )


def _threshold(rule: _Rule, observed: _Observed, wanted: Wanted) -> tuple[float | None, str]:
    """The score above which a target is taken for 1, and why it was chosen.

    Raises:
        InputError: nothing tells whether scores are probabilities or logits, or there is no score to compare.
    """
    if not rule.is_score:
        if wanted.threshold is not None:
            raise InputError(
                f"output {rule.output!r} has no single score to compare with {wanted.threshold:g}; use --metric "
                "accuracy"
            )
        return None, ""
    if wanted.threshold is not None:
        return wanted.threshold, ""
    outputs = observed.outputs()
    if outputs is None:
        raise InputError(
            f"output {rule.output!r} has one score for each target, and the model does not run here to show whether it "
            "is a probability or a logit; name its threshold: --metric accuracy@0.5 or --metric accuracy@0"
        )
    if _are_probabilities(outputs[rule.output]):
        return 0.5, " (they lie in [0, 1], as probabilities do; --metric accuracy@0 takes them for logits)"
    return 0.0, " (they lie outside [0, 1], as logits do; --metric accuracy@0.5 takes another threshold)"


def _are_probabilities(scores: np.ndarray) -> bool:
    return bool((scores >= -PROBABILITIES).all() and (scores <= 1 + PROBABILITIES).all())


def _is_one_hot(classes: np.ndarray) -> bool:
    """Whether each sample or place has a 1 for its class among zeros."""
    return classes.ndim > 1 and classes.shape[-1] > 1 and bool((classes.sum(axis=-1) == 1).all() and classes.min() >= 0)


def _same(shape: Sequence[int | str], target: Sequence[int]) -> bool:
    """Whether both shapes are the same but for axes of size 1; a named dimension takes any size."""
    return dataset.fits([dim for dim in shape if dim != 1], [size for size in target if size != 1])


def _fits_none(
    targets: np.ndarray, shapes: Mapping[str, Any], dtypes: Mapping[str, str], data: str, rule: str
) -> InputError:
    each = ", ".join(f"{name} {shape} {dtypes[name]}" for name, shape in shapes.items())
    return InputError(
        f"{data}: targets of shape {targets.shape} and {targets.dtype} fit no output (of each sample: {each}): {rule}; "
        "for all else give a Python file"
    )


def _several(names: Sequence[str], by: str, data: str) -> InputError:
    return InputError(
        f"{data}: the targets fit {by} of {len(names)} outputs, which do not say the same: {', '.join(names)}; name "
        f"the one to judge: --output {names[0]}"
    )


def _not_judged(shapes: Mapping[str, Any], name: str) -> str:
    """The outputs that are not judged by the metric."""
    others = [other for other in shapes if other != name]
    if not others:
        return ""
    return f"; not judged by it: {', '.join(others)} (--output NAME judges another)"
