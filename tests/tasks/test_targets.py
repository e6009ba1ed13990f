"""How targets of a user's data set are compared with a model's outputs: by which output, rule and threshold."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Arrays, TensorSpec
from bench.api.errors import InputError
from bench.tasks import metrics
from bench.tasks.metric_options import Wanted
from bench.tasks.targets import Judge, judge_of
from support import deferred

truth = deferred.importorskip("sklearn.metrics")

N = 60
RNG = np.random.default_rng(7)


def choose(
    targets: np.ndarray,
    outputs: Mapping[str, np.ndarray],
    *,
    runs: bool = True,
    labels: Sequence[int] | Sequence[str] = (),
    seen: int = 20,
    **named: str,
) -> Judge:
    """The judge of targets and of a model's outputs for all samples, which are observed for the first twenty."""
    specs = [
        TensorSpec(
            name=name, dtype="str" if values.dtype.kind == "U" else values.dtype.name, shape=("N", *values.shape[1:])
        )
        for name, values in outputs.items()
    ]

    def observe(names: Collection[str]) -> Arrays | None:
        return {name: outputs[name][:seen] for name in names} if runs else None

    wanted = Wanted.of(named.get("metric"), named.get("output"))
    return judge_of(targets, specs, batched=True, sizes={}, observe=observe, wanted=wanted, labels=labels, data="d.npz")


def task_of(judge: Judge) -> Any:
    return type("Own", (judge.kind,), dict(judge.attributes))(name="own", path=Path("task.py"))


def metric(judge: Judge, outputs: Mapping[str, np.ndarray]) -> float:
    """The metric of outputs; of its points, too, whose mean it must be where there are points of a share."""
    task = task_of(judge)
    (value,) = task.metrics(outputs, list(judge.targets)).values()
    points = task.points(outputs, list(judge.targets))
    if isinstance(task, metrics.Accuracy):
        assert points.values.mean() == pytest.approx(value)
        assert 0 <= points.values.min() <= points.values.max() <= points.most + 1e-12
    return float(value)


def scores(*shape: int) -> np.ndarray:
    return RNG.normal(0, 2, (N, *shape)).astype(np.float32)


def sigmoid(values: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-values)))


@pytest.mark.parametrize("column", [(), (1,)], ids=["flat", "column"])
@pytest.mark.parametrize(("as_probability", "threshold"), [(True, 0.5), (False, 0.0)], ids=["sigmoid", "logit"])
def test_one_score_is_compared_with_a_threshold(
    column: tuple[int, ...], as_probability: bool, threshold: float
) -> None:
    z = scores(1)
    y = ((z[:, 0] > 0) ^ (RNG.random(N) < 0.2)).astype(np.int64)
    outputs = {"score": sigmoid(z) if as_probability else z}
    judge = choose(y.reshape(N, *column), outputs)
    assert judge.attributes["threshold"] == threshold
    assert f"above {threshold:g}" in judge.note
    assert metric(judge, outputs) == pytest.approx(truth.accuracy_score(y, z[:, 0] > 0))
    opposite = {"score": 1 - outputs["score"] if as_probability else -outputs["score"]}
    assert metric(judge, opposite) == pytest.approx(1 - metric(judge, outputs))


def test_a_named_threshold_stays() -> None:
    p = sigmoid(scores())
    y = (p > 0.8).astype(np.int64)
    judge = choose(y, {"p": p}, metric="accuracy@0.8")
    assert metric(judge, {"p": p}) == 1
    assert metric(choose(y, {"p": p}), {"p": p}) < 1


def test_a_score_of_a_model_that_does_not_run_needs_a_threshold() -> None:
    y = np.arange(N) % 2
    with pytest.raises(InputError, match=r"--metric accuracy@0\.5 or --metric accuracy@0$"):
        choose(y, {"p": scores(1)}, runs=False)
    assert choose(y, {"p": scores(1)}, runs=False, metric="accuracy@0").attributes["threshold"] == 0


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            [0, 1, 2],
            r"targets run from 0 to 2; output 'p' has one score for each target: 0 to 1; .*; for a regression give",
        ),
        ([-1, 1], r"targets are -1 and 1; output 'p' has one score for each target: 0 to 1; write 0 for -1"),
        ([1, 2], r"targets run from 1 to 2; output 'p' has one score .* counted from 1: subtract 1; for a regression"),
        (
            [-51, 77],
            r"targets run from -51 to 77; .* or write -100 .*; for a regression give floats, or --metric rmse$",
        ),
    ],
)
def test_targets_that_are_no_two_classes_are_refused_for_one_score(values: list[int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        choose(np.resize(values, N), {"p": scores(1)})


def test_whole_numbers_may_be_right_values() -> None:
    y = RNG.integers(3, 90, N)
    judge = choose(y, {"price": (y + 1.5)[:, None].astype(np.float32)}, metric="rmse")
    assert metric(judge, {"price": (y + 1.5)[:, None]}) == pytest.approx(1.5)


def test_a_score_for_each_label_is_compared_with_a_threshold() -> None:
    z = scores(4)
    y = ((z > 0) ^ (RNG.random(z.shape) < 0.1)).astype(np.int64)
    judge = choose(y, {"labels": sigmoid(z)})
    assert metric(judge, {"labels": sigmoid(z)}) == pytest.approx(1 - truth.hamming_loss(y, z > 0))


def test_one_hot_targets_are_classes() -> None:
    z = scores(5)
    y = np.where(RNG.random(N) < 0.3, RNG.integers(0, 5, N), z.argmax(1))
    judge = choose(np.eye(5, dtype=np.int64)[y], {"scores": z})
    assert "one-hot" in judge.note
    assert metric(judge, {"scores": z}) == pytest.approx(truth.accuracy_score(y, z.argmax(1)))


@pytest.mark.parametrize("shape", [(7, 5), (6, 7, 5)], ids=["tags", "segments"])
@pytest.mark.parametrize("mark", [-100, -1])
def test_negative_labels_are_left_out(shape: tuple[int, ...], mark: int) -> None:
    z = scores(*shape)
    y = np.where(RNG.random(z.shape[:-1]) < 0.2, 0, z.argmax(-1))
    y[RNG.random(y.shape) < 0.5] = mark
    y[0] = mark  # a sample without any target that counts
    judge = choose(y, {"logits": z})
    assert judge.attributes["ignored"] == mark
    assert f"{np.count_nonzero(y == mark):,} of {y.size:,} targets are {mark}, which is no class" in judge.note
    counted = y != mark
    assert metric(judge, {"logits": z}) == pytest.approx(truth.accuracy_score(y[counted], z.argmax(-1)[counted]))


def test_scores_may_lie_along_the_first_axis() -> None:
    z = scores(5, 6, 7)
    judge = choose(z.argmax(1), {"masks": z})
    assert (judge.attributes["axis"], metric(judge, {"masks": z})) == (0, 1)


def test_scores_along_either_axis_lie_where_the_model_is_right() -> None:
    z = scores(5, 5)
    assert choose(z.argmax(2), {"logits": z}).attributes["axis"] == 1
    assert choose(z.argmax(1), {"logits": z}).attributes["axis"] == 0
    with pytest.raises(InputError, match=r"may lie along more than one axis of output logits .*; give a Python file"):
        choose(RNG.integers(0, 5, (N, 5)), {"logits": z})


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        (np.arange(N) % 10 + 1, r"targets run from 1 to 10; output 'z' has 10 classes: 0 to 9; .* counted from 1"),
        (np.arange(N) % 11, r"targets run from 0 to 10; output 'z' has 10 classes: 0 to 9; leave such samples out, or"),
        (
            np.where(np.arange(N) % 9 == 0, 255, 3),
            r"targets run from 3 to 255; .* or write -100 for targets that are no class",
        ),
        (np.arange(N) % 10 - 2, r"targets run from -2 to 7; .* one negative number, .* and there are 2: -2, -1$"),
        (np.full(N, -100), r"every target is -100, which marks what is left out: nothing is left to compare"),
    ],
    ids=["from one", "too many", "255", "two marks", "nothing but marks"],
)
def test_numbers_that_are_no_classes_are_refused_with_both_ranges(targets: np.ndarray, says: str) -> None:
    with pytest.raises(InputError, match=says):
        choose(targets, {"z": scores(10)})


def test_classes_that_the_model_counts_from_another_number_are_refused() -> None:
    """The last class never occurs, so the numbers fit; the model's own answers tell that they are off by one."""
    z = scores(10)
    z[:, 9] = -9
    with pytest.raises(InputError, match=r"right in 0 % as they are, and in 100 % with 1 subtracted"):
        choose(z.argmax(1) + 1, {"z": z})
    z = np.concatenate([np.full((N, 1), -9, np.float32), z], axis=1)  # a class of background
    with pytest.raises(InputError, match=r"right in 0 % as they are, and in 100 % with 1 added"):
        choose(z.argmax(1) - 1, {"z": z})
    assert metric(choose(z.argmax(1), {"z": z}), {"z": z}) == 1


def test_the_output_with_as_many_classes_is_judged() -> None:
    z = scores(6)
    outputs = {"embedding": scores(32), "logits": z, "small": scores(4)}
    y = z.argmax(1)
    y[0] = 5
    judge = choose(y, outputs)
    assert judge.attributes["judged"] == "logits"
    assert judge.note.endswith("; not judged by it: embedding, small (--output NAME judges another)")
    again = choose(y, dict(reversed(outputs.items())))
    assert (again.attributes["judged"], metric(again, outputs)) == ("logits", metric(judge, outputs))


def test_outputs_that_say_the_same_need_no_choice() -> None:
    z = scores(4)
    z[0, 3] = 9
    for outputs in ({"logits": z, "p": np.exp(z)}, {"label": z.argmax(1), "p": z}, {"p": z, "label": z.argmax(1)}):
        judge = choose(z.argmax(1), outputs)
        assert judge.attributes["judged"] == next(iter(outputs))
        assert metric(judge, outputs) == 1


LAST_ABSENT = np.concatenate([scores(9), np.full((N, 1), -99, np.float32)], axis=1)
"""Scores of ten classes, the last of which the model never says."""


@pytest.mark.parametrize(
    "other",
    [RNG.integers(0, 9, N), scores(9), scores(1)],
    ids=["integers of another meaning", "an embedding with as many places as classes occur", "one score"],
)
def test_an_output_that_only_seems_to_fit_is_asked_about(other: np.ndarray) -> None:
    y = LAST_ABSENT.argmax(1)
    if other.shape[1:] == (1,):
        y = np.where(y > 1, 1, y)
    with pytest.raises(
        InputError, match=r"do not say the same: .*; `bench run --output '\$\(logits\)'` names the output to judge"
    ):
        choose(y, {"$(logits)": LAST_ABSENT, "other": other})
    judge = choose(y, {"$(logits)": LAST_ABSENT, "other": other}, output="$(logits)")
    assert metric(judge, {"$(logits)": LAST_ABSENT}) == np.mean(LAST_ABSENT.argmax(1) == y)


@pytest.mark.parametrize("other", [scores(4), RNG.integers(0, 3, N), scores(200)], ids=["boxes", "label", "hidden"])
def test_a_refusal_is_not_lost_where_another_output_fits(other: np.ndarray) -> None:
    z = scores(3)
    with pytest.raises(
        InputError, match=r"targets run from 1 to 3; output 'z' has 3 classes: 0 to 2; .*subtract 1"
    ) as refused:
        choose(z.argmax(1) + 1, {"z": z, "$(x)": other})
    assert "`bench run --output $" not in str(refused.value)


def test_outputs_that_say_something_else_need_a_choice() -> None:
    a, b = scores(3), scores(3)
    a[0, 2] = 9
    y = np.where(np.arange(N) % 2, a.argmax(1), b.argmax(1))
    with pytest.raises(InputError, match=r"fit the classes of 2 outputs, .* a \(right in \d+ %\), b \(right in"):
        choose(y, {"a": a, "b": b})
    with pytest.raises(InputError, match="do not say the same"):
        choose(a.argmax(1), {"a": a, "b": a}, runs=False)
    judge = choose(b.argmax(1), {"a": a, "b": b}, output="b")
    assert metric(judge, {"a": a, "b": b}) == 1
    with pytest.raises(InputError, match="no output 'c' to judge; its outputs: a, b"):
        choose(a.argmax(1), {"a": a, "b": b}, output="c")
    with pytest.raises(InputError, match="fit the shape of 2 outputs"):
        choose(a.astype(float), {"a": a, "b": b})


def test_an_output_of_classes_that_says_other_classes_is_refused() -> None:
    y = np.arange(N) % 3
    with pytest.raises(InputError, match=r"right in 0 % as they are, and in 100 % with 1 subtracted"):
        choose(y + 1, {"label": y})
    with pytest.raises(InputError, match=r"targets hold 'cat', 'dog' and so on; output 'label' holds 'Cat', 'Dog'"):
        choose(np.array(["cat", "dog"])[y % 2], {"label": np.array(["Cat", "Dog"])[y % 2]})
    quantized = np.clip(RNG.normal(128, 60, N), 2, 255).astype(np.uint8)
    with pytest.raises(InputError, match=r"targets hold 0, 1 and so on; output 'q' holds .* which are no such classes"):
        choose((quantized > 128).astype(int), {"q": quantized})
    assert (
        metric(
            choose(np.array(["a", "b"])[y % 2], {"label": np.array(["a", "b"])[y % 2]}),
            {"label": np.array(["a", "b"])[y % 2]},
        )
        == 1
    )


def test_a_negative_class_is_a_class_where_the_model_says_it() -> None:
    y = np.where(np.arange(N) % 3 == 0, -1, 1)
    judge = choose(y, {"label": y})
    assert ("ignored" in judge.attributes, metric(judge, {"label": y})) == (False, 1)
    marked = np.where(np.arange(N) % 4 == 0, -1, np.arange(N) % 3)
    judge = choose(marked, {"label": np.arange(N) % 3})
    assert (judge.attributes["ignored"], metric(judge, {"label": np.arange(N) % 3})) == (-1, 1)
    with pytest.raises(InputError, match=r"targets hold -1, and the model does not run here .* write -100"):
        choose(marked, {"label": np.arange(N) % 3}, runs=False)


def test_one_hot_targets_may_lie_along_any_axis() -> None:
    z = scores(6, 5)
    y = np.where(RNG.random((N, 5)) < 0.3, 0, z.argmax(1))
    judge = choose(np.moveaxis(np.eye(6, dtype=int)[y], -1, 1), {"masks": z})
    assert (judge.attributes["axis"], metric(judge, {"masks": z})) == (0, np.mean(z.argmax(1) == y))
    with pytest.raises(InputError, match="a single 1 along each of the axes 1, 2"):
        choose(np.stack([np.eye(3, dtype=int)] * N), {"masks": scores(3, 3)})


@pytest.mark.parametrize("targets", [RNG.integers(0, 2, N).astype(float), np.eye(3)[np.arange(N) % 3]])
def test_floats_that_are_0_or_1_are_asked_about(targets: np.ndarray) -> None:
    outputs = {"p": sigmoid(scores(*targets.shape[1:]))}
    with pytest.raises(
        InputError, match="--metric accuracy takes them for classes, --metric rmse for the right values"
    ):
        choose(targets, outputs)
    assert choose(targets, outputs, metric="accuracy").kind is metrics.Accuracy
    assert choose(targets, outputs, metric="rmse").kind is metrics.Rmse


def test_whole_floats_that_fit_no_output_may_be_classes() -> None:
    with pytest.raises(InputError, match="whole numbers are classes with --metric accuracy"):
        choose(np.arange(N) % 5 * 1.0, {"z": scores(5)})


def test_classes_that_the_model_names_are_places_of_scores() -> None:
    z = scores(3)
    named = np.array([-1, 0, 1])[z.argmax(1)]
    named[0] = -100
    for targets in (named, named.astype(float)):
        judge = choose(targets, {"p": z}, labels=(-1, 0, 1), metric="accuracy")
        assert (judge.attributes["ignored"], metric(judge, {"p": z})) == (-100, 1)
    judge = choose(np.array(["a", "b", "c"])[z.argmax(1)], {"p": z}, labels=("a", "b", "c"))
    assert metric(judge, {"p": z}) == 1
    with pytest.raises(InputError, match=r"targets hold 7; the classes of the model are -1, 0, 1"):
        choose(np.where(np.arange(N) == 3, 7, 1), {"p": z}, labels=(-1, 0, 1))
    with pytest.raises(InputError, match=r"targets hold 0; the classes of the model are 1, 2, 3"):
        choose(np.arange(N) % 3, {"label": np.arange(N) % 3 + 1}, labels=(1, 2, 3))


def test_an_open_number_of_classes_is_refused() -> None:
    spec = TensorSpec(name="z", dtype="float32", shape=("N", "?"))
    with pytest.raises(InputError, match=r"has an open number of classes, \?, and the model does not run here"):
        judge_of(np.arange(N) % 3, [spec], batched=True, sizes={}, observe=lambda _: None)


@pytest.mark.parametrize("column", [(), (1,)], ids=["flat", "column"])
def test_right_values_are_compared_place_by_place(column: tuple[int, ...]) -> None:
    """Shapes (N,) and (N, 1) are no table of all differences."""
    y = RNG.normal(0, 1, N)
    outputs = {"y": (y + 0.5)[:, None].astype(np.float32)}
    judge = choose(y.reshape(N, *column), outputs)
    assert metric(judge, outputs) == pytest.approx(0.5, rel=1e-6)


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(InputError, match="1 of 60 targets are not finite"):
        choose(np.where(np.arange(N) == 3, np.nan, 1.0), {"y": scores(1)})


@pytest.mark.parametrize(
    ("targets", "outputs", "says"),
    [
        (np.zeros((N, 3)), {"y": scores(4)}, r"targets of shape \(60, 3\) and float64 fit no output"),
        (np.zeros((N, 3), np.int64), {"y": scores(4)}, r"y \(4,\) float32\): integers are classes"),
        (np.full(N, "a"), {"y": scores(4)}, "and <U1 fit no output"),
        (np.zeros(N, np.complex64), {"y": scores(4)}, "targets hold complex64; accuracy takes whole numbers"),
        (np.zeros((N, 0)), {"y": scores(4)}, "targets hold no value"),
    ],
)
def test_targets_that_fit_nothing_are_refused(targets: np.ndarray, outputs: dict[str, np.ndarray], says: str) -> None:
    with pytest.raises(InputError, match=says):
        choose(targets, outputs)


def test_an_open_size_is_that_of_a_run() -> None:
    z = scores(3, 8)
    spec = TensorSpec(name="z", dtype="float32", shape=("N", "?", "?"))
    judge = judge_of(z.argmax(1), [spec], batched=True, sizes={}, observe=lambda _: {"z": z[:4]})
    assert metric(judge, {"z": z}) == 1
    with pytest.raises(InputError, match="has an open number of classes"):
        judge_of(z.argmax(1), [spec], batched=True, sizes={}, observe=lambda _: None)


@pytest.mark.parametrize("text", ["f1", "accuracy@", "accuracy@x", "rmse@1"])
def test_a_metric_that_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"no metric .*--metric takes accuracy .* and rmse"):
        Wanted.of(text, None)


def test_chance_is_the_most_frequent_answer() -> None:
    """Beside the share of the most frequent class, or of each label, stand two standard errors of that share."""
    y = np.array([0] * 30 + [1] * 20 + [2] * 10)
    judge = choose(y, {"z": scores(3)})
    task = task_of(judge)
    assert task.chance(list(y)) == pytest.approx(0.5 + 2 * np.sqrt(0.25 / 60))
    y = np.stack([np.arange(N) < 45, np.arange(N) < 6], axis=1).astype(int)
    judge = choose(y, {"z": scores(2)})
    task = task_of(judge)
    assert task.chance(list(y)) == pytest.approx(0.825 + 2 * np.sqrt(0.825 * 0.175 / N))
    values = RNG.normal(3, 2, N)
    judge = choose(values, {"z": scores(1)})
    task = task_of(judge)
    assert task.chance(list(values)) == pytest.approx(values.std() * (1 - 2 / np.sqrt(2 * N)))


def test_chance_of_places_is_that_of_their_own_class() -> None:
    """A mask whose halves always are of one class each needs no image."""
    y = np.zeros((N, 4, 4), np.int64)
    y[:, :, 2:] = 1
    y[RNG.random(y.shape) < 0.05] = 2
    task = task_of(choose(y, {"masks": scores(3, 4, 4)}, output="masks", metric="accuracy"))
    assert task.chance(list(y)) > np.mean(y == np.where(np.arange(4) < 2, 0, 1))
    assert task.chance(list(y[:1])) == 1, "of a single sample nothing is known"
