"""How the targets of a data set are compared with a model's outputs: which output, which metric, and by which rule."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from bench.api import Arrays, TensorSpec, ragged
from bench.api.errors import InputError
from bench.onnxfile.deferred import np
from bench.tasks import dataset, metrics
from bench.tasks.metric_options import ACCURACY, ANY, RMSE, Wanted
from bench.tasks.rules import Observed, Rule, agree, one_hot_axes, rules_of

PADDING = -100
"""The label that PyTorch's cross entropy ignores by default: no model's class, whatever the output is."""
_SHIFTED = 0.5
"""Share of right answers from which on targets that are counted from another number are recognized."""
KNOWN = 0.5
"""Least share of an output's classes that are among the targets, where the output holds classes."""


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


def judge_of(
    targets: np.ndarray,
    outputs: Sequence[TensorSpec],
    *,
    batched: bool,
    sizes: Mapping[str, int],
    observe: Callable[[Collection[str]], Arrays | None],
    wanted: Wanted = ANY,
    labels: Sequence[int] | Sequence[str] = (),
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
        observe: runs the model on the first samples and gives the outputs of these names, with the samples along the
            first axis; None where it does not run. It is called where shapes and types alone do not tell.
        wanted: the metric and the output that the user named.
        labels: the class of each score, or each class of an output of classes, as the model itself names them.
        data: the data set, as messages name it.

    Raises:
        InputError: the targets fit no output, or more than one, or are no numbers of its classes; the message says
            which are, and the option or the change that mends it.
    """
    if not targets.size:
        raise InputError(f"{data}: targets hold no value: shape {targets.shape}")
    known = [spec.name for spec in outputs]
    if wanted.output is not None and wanted.output not in known:
        raise InputError(f"the model has no output {wanted.output!r} to judge; its outputs: {', '.join(known)}")
    shapes = {
        spec.name: tuple(sizes.get(str(dim), dim) for dim in (spec.shape[1:] if batched else spec.shape))
        for spec in outputs
        if wanted.output in (None, spec.name)
    }
    dtypes = {spec.name: spec.dtype for spec in outputs}
    observed = Observed(lambda: observe(list(shapes)))
    if any(isinstance(dim, str) for shape in shapes.values() for dim in shape) and (seen := observed.outputs()):
        uneven = [name for name in shapes if ragged.is_ragged(seen[name])]
        shapes = {name: seen[name].shape[1:] for name in shapes if name not in uneven}
        if not shapes:
            raise InputError(f"{data}: {metrics.other_shapes(uneven[0], seen[uneven[0]])}")
    chooser = _Chooser(shapes=shapes, dtypes=dtypes, observed=observed, wanted=wanted, labels=labels, data=data)
    judge = chooser.rmse(targets) if chooser.metric_of(targets) == RMSE else chooser.accuracy(targets)
    others = [name for name in known if name != judge.attributes["judged"]]
    judged = f"; not judged by it: {', '.join(others)} (--output NAME judges another)" if others else ""
    return dataclasses.replace(judge, note=judge.note + judged)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Chooser:
    """The facts that a choice is made from; see `judge_of`.

    Attributes:
        shapes: by name of an output that may be judged, its shape for one sample.
        dtypes: by name of an output, its type.
    """

    shapes: Mapping[str, tuple[int | str, ...]]
    dtypes: Mapping[str, str]
    observed: Observed
    wanted: Wanted
    labels: Sequence[int] | Sequence[str]
    data: str

    def metric_of(self, targets: np.ndarray) -> str:
        """The metric that the user named, or that fits the type of the targets.

        Raises:
            InputError: the targets are floats that look like classes.
        """
        if self.wanted.metric is not None:
            return self.wanted.metric
        if targets.dtype.kind != "f":
            return ACCURACY
        if targets.size > 1 and np.array_equal(np.unique(targets), [0.0, 1.0]):
            raise InputError(
                f"{self.data}: targets are floats, and all are 0 or 1; --metric accuracy takes them for classes, "
                "--metric rmse for the right values of an output"
            )
        return RMSE

    def rmse(self, targets: np.ndarray) -> Judge:
        """Judge by the error of an output of the targets' shape."""
        if targets.dtype.kind not in "fiub":
            raise InputError(
                f"{self.data}: targets hold {targets.dtype}; rmse takes numbers", fix="--metric names another metric"
            )
        values = targets.astype(np.float64)
        if num_bad := int(np.count_nonzero(~np.isfinite(values))):
            raise InputError(
                f"{self.data}: {num_bad:,} of {values.size:,} targets are not finite; leave such samples out"
            )
        target = targets.shape[1:]
        fitting = [
            name
            for name, shape in self.shapes.items()
            if self.dtypes[name].startswith("float") and dataset.fits_but_ones(shape, target)
        ]
        if not fitting:
            whole = (values == np.round(values)).all()
            fix = "; whole numbers are classes with --metric accuracy" if whole else ""
            raise self._fits_none(targets, f"floats are the right values of an output of their shape{fix}")
        if len(fitting) > 1 and not agree([self.observed.values(name, target) for name in fitting]):
            raise self._several("shape", dict.fromkeys(fitting, ""))
        text = f"the error of output {fitting[0]!r}"
        return Judge(
            kind=metrics.Rmse,
            attributes={"judged": fitting[0], "judged_as": text},
            targets=targets if targets.dtype.kind == "f" else values,
            note=f"rmse is {text}",
        )

    def accuracy(self, targets: np.ndarray) -> Judge:
        """Judge by the share of targets that an output has right."""
        classes = self._columns(self._classes(targets))
        rule = self._rule(classes)
        one_hot = one_hot_axes(classes) if rule.is_score and self.shapes[rule.output] == classes.shape[1:] else []
        if len(one_hot) > 1:
            raise InputError(
                f"{self.data}: targets have a single 1 along each of the axes {', '.join(map(str, one_hot))}: classes "
                "may lie along any of them; give the numbers of the classes instead"
            )
        if one_hot:
            classes = classes.argmax(axis=one_hot[0])
            rule = Rule(output=rule.output, axis=one_hot[0] - 1)
        ignored = self._ignored(classes, rule)
        if not self.wanted.is_whole:
            self._refuse_unknown(classes, ignored, rule)
            self._refuse_shifted(classes, ignored, rule)
        threshold, why = self._threshold(rule)
        text = f"output {rule.output!r}"
        if rule.is_score:
            text += f" above {threshold:g}"
        elif rule.axis is not None:
            text = f"the class with the largest of {self.shapes[rule.output][rule.axis]} scores of {text}"
        if one_hot:
            text += ", beside one-hot targets"
        if ignored is not None:
            left_out = np.count_nonzero(classes == ignored)
            text += f"; {left_out:,} of {classes.size:,} targets are {ignored}, which is no class, and are left out"
        attributes = {"judged": rule.output, "axis": rule.axis, "threshold": threshold, "ignored": ignored}
        return Judge(
            kind=metrics.Accuracy,
            attributes={**{key: value for key, value in attributes.items() if value is not None}, "judged_as": text},
            targets=classes,
            note=f"accuracy compares {text}{why}",
        )

    def _classes(self, targets: np.ndarray) -> np.ndarray:
        """Targets as classes: integers and texts stay, bools and whole floats become integers.

        Raises:
            InputError: they are other values.
        """
        if targets.dtype.kind in "iuU":
            return targets
        if targets.dtype.kind == "b":
            return targets.astype(np.int64)
        if targets.dtype.kind == "f" and np.isfinite(targets).all() and (targets == np.round(targets)).all():
            return targets.astype(np.int64)
        raise InputError(f"{self.data}: targets hold {targets.dtype}; accuracy takes whole numbers, those of classes")

    def _columns(self, classes: np.ndarray) -> np.ndarray:
        """Classes as the places of their scores, where the model names its classes and gives scores.

        Raises:
            InputError: a target is no class of the model.
        """
        if not self.labels:
            return classes
        columns: dict[Any, int] = {label: column for column, label in enumerate(self.labels)}
        values = classes.ravel().tolist()
        if unknown := sorted({value for value in values if value not in columns and value != PADDING}, key=str):
            more = f" ... {self.labels[-1]!r}" if len(self.labels) > 10 else ""
            raise InputError(
                f"{self.data}: targets hold {', '.join(map(repr, unknown[:5]))}; the classes of the model are "
                f"{', '.join(map(repr, self.labels[:10]))}{more}: number or name them as the model does"
            )
        if not any(dtype.startswith("float") for dtype in self.dtypes.values()):
            return classes
        return np.array([columns.get(value, value) for value in values], np.int64).reshape(classes.shape)

    def _rule(self, classes: np.ndarray) -> Rule:
        """The only rule, or the rule that the numbers of classes and the model's own answers single out.

        Raises:
            InputError: the targets fit no output, or more than one.
        """
        rules: list[Rule] = []
        refusals = []
        for name, shape in self.shapes.items():
            try:
                rules += rules_of(name, shape, self.dtypes[name], classes)
            except InputError as error:
                refusals.append(error)
        if not rules and refusals:
            raise InputError(f"{self.data}: {refusals[0]}")
        if not rules:
            raise self._fits_none(classes, "integers are classes, one for each sample or place in it")
        if not refusals and (len(rules) == 1 or agree([self.observed.predicted(rule, classes) for rule in rules])):
            return rules[0]
        # Several outputs fit: one is singled out where its number of classes is that of the targets, and the model's
        # own answers for the first samples are better than chance by it and by no other.
        credible = [rule for rule in rules if self.observed.is_credible(rule, classes)]
        is_fitting = len({rule.output for rule in rules}) == 1 or any(rule.has_as_many(classes) for rule in credible)
        if credible and is_fitting and agree([self.observed.predicted(rule, classes) for rule in credible]):
            return credible[0]
        if refusals and not credible:
            raise InputError(
                f"{self.data}: {refusals[0]}; or `bench run --output {shlex.quote(rules[0].output)}` judges that output"
            )
        raise self._several("classes", {rule.output: self.observed.share_right(rule, classes) for rule in rules})

    def _ignored(self, classes: np.ndarray, rule: Rule) -> int | None:
        """The target that marks what is left out: a negative number, which is no class; None where there is none.

        Raises:
            InputError: nothing tells whether a negative number is a class of an output of classes.
        """
        least = int(classes.min()) if classes.dtype.kind == "i" else 0
        if least >= 0:
            return None
        if rule.axis is not None or rule.is_score or least == PADDING:
            return least
        if least in self.labels:
            return None
        predicted = self.observed.predicted(rule, classes)
        if predicted is None:
            raise InputError(
                f"{self.data}: targets hold {least}, and the model does not run here to show whether that is a class; "
                f"write {PADDING} for what is left out"
            )
        return None if (predicted == least).any() else least

    def _refuse_unknown(self, classes: np.ndarray, ignored: int | None, rule: Rule) -> None:
        """Refuse targets that an output of classes does not say, as where it holds quantized scores.

        Raises:
            InputError: fewer than half of its values for the first samples are among the targets.
        """
        predicted = self.observed.predicted(rule, classes) if rule.axis is None and not rule.is_score else None
        if predicted is None or self.labels:
            return
        present = np.unique(classes if ignored is None else classes[classes != ignored])
        if float(np.isin(predicted, present).mean()) < KNOWN:
            few = ", ".join(map(repr, np.unique(predicted)[:5].tolist()))
            raise InputError(
                f"{self.data}: targets hold {', '.join(map(repr, present[:5].tolist()))} and so on; output "
                f"{rule.output!r} holds {few} and so on for the first {len(predicted)} samples, which are no such "
                "classes; for scores of another type give a Python file"
            )

    def _refuse_shifted(self, classes: np.ndarray, ignored: int | None, rule: Rule) -> None:
        """Refuse numbers of classes that are counted from another number than the model's.

        Only where the first or the last class never occurs can they be: then the model's answers tell.

        Raises:
            InputError: the model is right far more often where 1 is added or subtracted.
        """
        if rule.is_score or classes.dtype.kind == "U":
            return
        judged_classes = classes if ignored is None else classes[classes != ignored]
        num_classes = rule.num_classes
        may_be_lower = judged_classes.min() > 0 or num_classes is None
        may_be_higher = num_classes is None or judged_classes.max() < num_classes - 1
        shifts = [shift for shift, may_be in ((-1, may_be_lower), (1, may_be_higher)) if may_be]
        predicted = self.observed.predicted(rule, classes) if shifts else None
        if predicted is None:
            return
        right = classes[: len(predicted)].astype(np.int64)
        counted = np.ones(right.shape, bool) if ignored is None else right != ignored
        if not counted.any():
            return
        as_is = float(np.mean((predicted == right)[counted]))
        for shift in shifts:
            agreed = float(np.mean((predicted == right + shift)[counted]))
            if agreed >= _SHIFTED and as_is < agreed / 2:
                allowed = f"{num_classes} classes: 0 to {num_classes - 1}" if num_classes else "classes of its own"
                raise InputError(
                    f"{self.data}: targets run from {int(judged_classes.min())} to {int(judged_classes.max())}; "
                    f"output {rule.output!r} has {allowed}; on the first {len(predicted)} samples the model is right "
                    f"in {100 * as_is:.0f} % as they are, and in {100 * agreed:.0f} % with "
                    f"{'1 added' if shift > 0 else '1 subtracted'}: number them as the model does"
                )

    def _threshold(self, rule: Rule) -> tuple[float | None, str]:
        """The score above which a target is taken for 1, and why it was chosen.

        Raises:
            InputError: nothing tells whether scores are probabilities or logits, or there is no score to compare.
        """
        threshold = self.wanted.threshold
        if not rule.is_score and threshold is not None:
            raise InputError(
                f"output {rule.output!r} has no single score to compare with {threshold:g}; use --metric accuracy"
            )
        if not rule.is_score or threshold is not None:
            return threshold, ""
        outputs = self.observed.outputs()
        if outputs is None:
            raise InputError(
                f"output {rule.output!r} has one score for each target, and the model does not run here to show "
                "whether it is a probability or a logit; name its threshold: --metric accuracy@0.5 or --metric "
                "accuracy@0"
            )
        if self.observed.are_probabilities(rule.output):
            return 0.5, " (they lie in [0, 1], as probabilities do; --metric accuracy@0 takes them for logits)"
        return 0.0, " (they lie outside [0, 1], as logits do; --metric accuracy@0.5 takes another threshold)"

    def _fits_none(self, targets: np.ndarray, rule: str) -> InputError:
        each = ", ".join(f"{name} {shape} {self.dtypes[name]}" for name, shape in self.shapes.items())
        return InputError(
            f"{self.data}: targets of shape {targets.shape} and {targets.dtype} fit no output (of each sample: "
            f"{each}): {rule}; for all else give a Python file"
        )

    def _several(self, by: str, each: Mapping[str, str]) -> InputError:
        """The error that asks for an output; `each` tells by the name of an output how often it is right."""
        names = ", ".join(f"{name}{right}" for name, right in each.items())
        if len(each) == 1:
            return InputError(
                f"{self.data}: the scores of the classes may lie along more than one axis of output {names}; give a "
                "Python file with metrics(outputs, targets)"
            )
        return InputError(
            f"{self.data}: the targets fit the {by} of {len(each)} outputs, which do not say the same: {names}; `bench "
            f"run --output {shlex.quote(next(iter(each)))}` names the output to judge, as does `bench check`"
        )
