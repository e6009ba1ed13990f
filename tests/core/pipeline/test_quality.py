"""Quality: the four verdicts on outputs, and the reason for the worst."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from bench.api import Points, Samples, Task, TensorSpec, fidelity
from bench.api.errors import PluginError
from bench.api.fidelity import FidelityTask
from bench.pipeline import differences, quality
from bench.pipeline.quality import Part
from bench.records.lines import Quality
from bench.records.metric_loss import Lost

NUM_SAMPLES = 4
TARGETS = [np.full(3, 2.0, np.float32)] * NUM_SAMPLES
EXPECTED = {"y": np.full((NUM_SAMPLES, 3), 2.0, np.float32)}
SAMPLES = Samples(inputs={"x": np.zeros((NUM_SAMPLES, 3), np.float32)}, targets=TARGETS)


class Distance(Task):
    """The metric is 100 minus the mean absolute difference in percent of one, or the difference itself."""

    sources = ("null",)
    inputs = (TensorSpec(name="x", dtype="float32", shape=("batch", 3)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 3)),)
    metric_name = "score"
    close = 1e-3
    max_metric_loss = 5.0

    def build(self, source: str, weights: Path) -> Any:
        raise NotImplementedError

    def samples(self, split: str) -> Samples:
        return SAMPLES

    def loss(self, outputs: Mapping[str, np.ndarray], targets: Sequence[Any]) -> float:
        return float(np.mean((outputs["y"] - np.stack(targets)) ** 2))

    def metrics(self, outputs: Mapping[str, np.ndarray], targets: Sequence[Any]) -> dict[str, float]:
        mean = 100 * float(np.mean(np.abs(outputs["y"] - np.stack(targets))))
        return {"score": 100 - mean if self.higher_is_better else mean, "largest": float(outputs["y"].max())}


class Error(Distance):
    """The same with a metric that is better when it is lower."""

    higher_is_better = False


TASK, LOWER = Distance(name="distance", path=Path("task.py")), Error(name="error", path=Path("task.py"))


def judge(y: np.ndarray, task: Task = TASK, expected: Mapping[str, np.ndarray] | None = EXPECTED) -> Quality:
    return quality.judge(task, SAMPLES, {"y": y}, expected)


def off_by(difference: float, dtype: type = np.float32) -> np.ndarray:
    """The right outputs but for one number."""
    y = EXPECTED["y"].astype(dtype)
    y[1, 2] += difference
    return y


def test_exact() -> None:
    assert judge(EXPECTED["y"].copy()) == Quality(
        fidelity="exact",
        reason=None,
        loss=0.0,
        metrics={"score": 100.0, "largest": 2.0},
        metric_name="score",
        metric_loss=0.0,
        lost="its task does not tell what each sample adds to the metric",
        higher_is_better=True,
        max_abs_error=0.0,
        relative_error=0.0,
    )


def test_the_reference_is_exact_by_definition() -> None:
    """However bad its metric is."""
    found = judge(np.full((NUM_SAMPLES, 3), 3.0, np.float32), expected=None)
    assert (found.fidelity, found.loss, found.metrics["score"]) == ("exact", 1.0, 0.0)


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        (0.001, "close"),  # relative: half of it
        (0.0019, "close"),
        (0.003, "drifted"),
        (-0.003, "drifted"),
        (0.5, "drifted"),  # costs 100 * 0.5 / 12 = 4.17 of the metric
        (0.61, "broken"),  # 5.08
        (-0.61, "broken"),
    ],
)
@pytest.mark.parametrize("task", [TASK, LOWER], ids=["higher is better", "lower is better"])
def test_fidelity_by_size_of_the_difference(task: Task, difference: float, expected: str) -> None:
    found = judge(off_by(difference), task)
    assert found.fidelity == expected
    assert found.max_abs_error == pytest.approx(abs(difference), rel=1e-3)
    assert found.relative_error == pytest.approx(abs(difference) / 2, rel=1e-3)
    assert found.loss == pytest.approx(difference**2 / 12, rel=1e-2)
    assert (found.reason is None) == (expected != "broken")


@pytest.mark.parametrize("task", [TASK, LOWER], ids=["higher is better", "lower is better"])
def test_reason_of_a_lost_metric(task: Task) -> None:
    assert judge(off_by(1.2), task).reason == "score is worse than the reference's by 10; at most 5 is allowed"


class Ratio(Distance):
    """The metric is a ratio in decibels."""

    metric_name = "snr_db"
    max_metric_loss = 110.0

    def metrics(self, outputs: Mapping[str, np.ndarray], targets: Sequence[Any]) -> dict[str, float]:
        return {"snr_db": 120.0 if (outputs["y"] == 2).all() else 9.9998}


def test_reason_has_the_unit_and_digits_that_differ() -> None:
    found = judge(off_by(1.2), Ratio(name="ratio", path=Path("task.py")))
    assert found.reason == "snr_db is worse than the reference's by 110.0002 dB; at most 110 dB is allowed"


@pytest.mark.parametrize("task", [TASK, LOWER], ids=["higher is better", "lower is better"])
def test_a_metric_better_than_the_reference_is_not_broken(task: Task) -> None:
    poor = {"y": np.full((NUM_SAMPLES, 3), 4.0, np.float32)}
    found = judge(EXPECTED["y"], task, poor)
    assert (found.fidelity, found.reason) == ("drifted", None)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none(value: float) -> None:
    y = EXPECTED["y"].copy()
    y[0, :2] = value
    found = judge(y)
    assert found.fidelity == "broken"
    assert found.reason == (
        f"output y holds 2 values that are not finite, of 12; the first, {value} in sample 0 at [0], is 2 in the "
        "reference"
    )
    assert [getattr(found, name) for name in ("loss", "metrics", "max_abs_error", "relative_error")] == [None] * 4


@pytest.mark.parametrize("shape", [(NUM_SAMPLES, 3, 1), (NUM_SAMPLES, 1), (NUM_SAMPLES,)])
def test_wrong_shape(shape: tuple[int, ...]) -> None:
    """Even one that numpy would stretch to fit."""
    found = judge(np.full(shape, 2.0, np.float32))
    assert found.fidelity == "broken"
    assert found.reason == f"output y has shape {shape}; the reference has (4, 3)"


def test_outputs_that_are_not_numbers() -> None:
    found = judge(np.full((NUM_SAMPLES, 3), "2.0"))
    assert found.fidelity == "broken"
    assert found.reason.endswith("not numbers")


def test_half_precision_is_compared_exactly() -> None:
    """In double precision, so that the comparison itself rounds nothing."""
    found = judge(off_by(0.0, np.float16))
    assert found.fidelity == "exact"
    assert judge(off_by(0.01, np.float16)).max_abs_error == pytest.approx(0.01, abs=0.001)


def test_difference_of_small_integers_does_not_wrap() -> None:
    expected = {"y": np.zeros((NUM_SAMPLES, 3), np.uint8)}
    found = judge(np.full((NUM_SAMPLES, 3), 1, np.uint8), expected=expected)
    assert found.max_abs_error == 1
    found = judge(expected["y"], expected={"y": np.full((NUM_SAMPLES, 3), 1, np.uint8)})
    assert found.max_abs_error == 1


def test_reference_of_zeros_has_no_scale() -> None:
    zeros = {"y": np.zeros((NUM_SAMPLES, 3), np.float32)}
    found = judge(zeros["y"] + np.float32(1e-4), expected=zeros)
    assert (found.fidelity, found.relative_error) == ("close", found.max_abs_error)


def test_loss_that_is_no_number_is_not_stored() -> None:
    class Undefined(Distance):
        def loss(self, outputs: Mapping[str, np.ndarray], targets: Sequence[Any]) -> float:
            return float("nan")

        def metrics(self, outputs: Mapping[str, np.ndarray], targets: Sequence[Any]) -> dict[str, float]:
            return {"score": float("nan")}

    found = judge(off_by(0.001), Undefined(name="undefined", path=Path("task.py")))
    assert (found.fidelity, found.loss, found.metrics) == ("broken", None, {"score": None})


@pytest.mark.parametrize(
    ("higher_is_better", "metric", "reference", "lost"),
    [
        (True, 99.0, 100.0, 0.01),
        (True, 101.0, 100.0, -0.01),
        (False, 0.0101, 0.01, 0.01),
        (False, 0.0, 0.0, 0.0),
        (False, 0.001, 0.0, math.inf),
        (True, -11.0, -10.0, 0.1),
    ],
)
def test_share_of_the_metric_that_is_lost(higher_is_better: bool, metric: float, reference: float, lost: float) -> None:
    task = TASK if higher_is_better else LOWER
    assert task.metric_loss(metric, reference) == pytest.approx(lost)


class InDecibels(Distance):
    """The same score, of which differences are told; a sample is taken to lose 3 at most."""

    metric_loss_unit = "dB"

    def points(self, outputs: Mapping[str, np.ndarray], targets: Sequence[Any]) -> Points | str:
        lost = 100 * np.abs(outputs["y"] - np.stack(targets)).mean(axis=1)
        return Points(values=100 - lost, score=1.0, most=3.0, convention="a sample is taken to lose at most 3 dB")


def test_a_loss_in_db_is_a_difference_of_the_metric() -> None:
    """Of 12 numbers one is off by 0.12, which is 1 of the score's 100 in the mean and 4 of one sample's."""
    task = InDecibels(name="sharp", path=Path("task.py"))
    assert task.metric_loss(29.5, 30.0) == 0.5
    assert task.metric_loss(30.0, 30.0) == 0.0
    assert task.metric_loss(30.25, 30.0) == -0.25
    found = judge(off_by(0.12), task)
    assert found.metric_loss == pytest.approx(1.0, rel=1e-5)
    assert (found.metric_loss_unit, found.loss_unit) == ("dB", "dB")
    assert found.convention == "a sample is taken to lose at most 3 dB"
    assert isinstance(found.lost, Lost)
    assert found.lost.points == ((1, pytest.approx(4.0, rel=1e-5)),)
    assert found.lost.mean == pytest.approx(1.0, rel=1e-5)
    assert found.loss_bound == found.lost.high() > 1.0


def test_points_in_db_are_no_share_of_a_score() -> None:
    """With the score of 100, a loss of 1 dB in the mean would be told as 0.01."""

    class Divided(InDecibels):
        def points(self, outputs: Mapping[str, np.ndarray], targets: Sequence[Any]) -> Points | str:
            found = super().points(outputs, targets)
            assert isinstance(found, Points)
            return dataclasses.replace(found, score=100.0)

    said = r"sharp/task\.py: points\(\) has the score 100; .* metric_loss_unit is 'dB' it must be 1"
    for y in (off_by(0.12), EXPECTED["y"].copy()):
        with pytest.raises(PluginError, match=said):
            judge(y, Divided(name="sharp", path=Path("sharp/task.py")))


def test_a_share_needs_no_unit_and_what_follows_from_the_metric_no_convention() -> None:
    found = judge(off_by(0.001))
    assert (found.metric_loss_unit, found.convention, found.loss_unit) == (UNSET, UNSET, "share")


def test_lost_share_is_judged() -> None:
    found = judge(off_by(0.001))
    assert found.metric_loss == pytest.approx((100 - found.metrics["score"]) / 100)
    assert 0 < found.metric_loss < 0.01


def test_an_error_rate_loses_a_share_of_what_is_right() -> None:
    """0.12 characters of 100 that are read right but for 0.34 are no third of the metric."""

    class RateOfErrors(Distance):
        higher_is_better = False
        is_error_rate = True

    task = RateOfErrors(name="rate", path=Path("task.py"))
    assert task.metric_loss(0.0046, 0.0034) == pytest.approx(0.0012 / 0.9966)
    assert task.metric_loss(0.0022, 0.0034) == pytest.approx(-0.0012 / 0.9966)


class Scored(Distance):
    """The same metric with the points of each sample."""

    def points(self, outputs: Mapping[str, np.ndarray], targets: Sequence[Any]) -> Points | str:
        values = 100 - 100 * np.abs(outputs["y"] - np.stack(targets)).mean(axis=1)
        return Points(values=values, score=float(values.mean()), most=100.0)


SCORED = Scored(name="scored", path=Path("task.py"))


def test_points_lost_by_each_sample_are_kept_with_the_share_as_their_mean() -> None:
    found = judge(off_by(0.03), SCORED)
    assert isinstance(found.lost, Lost)
    assert (found.lost.num_samples, found.lost.score, found.lost.most) == (NUM_SAMPLES, 100.0, 100.0)
    ((row, points),) = found.lost.points
    assert (row, points) == (1, pytest.approx(1.0, rel=1e-5))
    assert points / NUM_SAMPLES / found.lost.score == pytest.approx(found.metric_loss, rel=1e-5)


def test_outputs_that_are_equal_lose_no_points_but_may() -> None:
    found = judge(EXPECTED["y"].copy(), SCORED)
    assert isinstance(found.lost, Lost)
    assert found.lost.points == ()
    assert found.lost.high() == pytest.approx(1 - 0.05 ** (1 / NUM_SAMPLES))


@pytest.mark.parametrize(("error", "largest"), [(0.03, None), (0.0, 2.0)])
def test_a_metric_that_does_not_rank_is_not_estimated_from_a_part(error: float, largest: float | None) -> None:
    """The largest value of a few samples, as a score of rare classes on them, says nothing of the whole split."""
    rows = [1, 0]
    part = Part(rows=rows, loss=0.0, metrics={"score": 100.0, "largest": 2.0})
    outputs = {"y": off_by(error)[rows]}
    found = quality.judge(SCORED, SAMPLES, outputs, EXPECTED, part=part)
    assert found.metrics == {"score": pytest.approx(100 - 100 * error / 3 / 2, rel=1e-5), "largest": largest}


def test_no_points_are_lost_where_the_reference_has_none() -> None:
    worthless = {"y": EXPECTED["y"] + 1}
    assert (
        judge(EXPECTED["y"], SCORED, worthless).lost
        == "the score of the reference, or all that a sample can lose of it, is zero"
    )


def test_fidelity_loses_the_root_mean_square_of_its_error() -> None:
    """Decibels are no share: 40 dB is an error of 1 %, and 120 dB, as far as they are counted, is none."""

    class Fidelity(FidelityTask):
        def build(self, source: str, weights: Path) -> Any:
            raise NotImplementedError

        def samples(self, split: str) -> Samples:
            raise NotImplementedError

    task = Fidelity(name="fidelity", path=Path("task.py"))
    assert [task.metric_loss(metric, 120.0) for metric in (120.0, 40.0, 20.0)] == pytest.approx([0, 0.01, 0.1])


def test_every_output_counts() -> None:
    expected = {"y": EXPECTED["y"], "z": np.ones((NUM_SAMPLES, 1), np.float32)}
    found = quality.judge(TASK, SAMPLES, {"y": EXPECTED["y"], "z": expected["z"] * 1.5}, expected)
    assert (found.fidelity, found.max_abs_error, found.relative_error) == ("drifted", 0.5, 0.5)


def test_without_targets_the_reference_is_the_target() -> None:
    class Untaught(Distance):
        def metrics(self, outputs: Mapping[str, np.ndarray], targets: Sequence[Any]) -> dict[str, float]:
            return super().metrics(outputs, [target["y"] for target in targets])

        def loss(self, outputs: Mapping[str, np.ndarray], targets: Sequence[Any]) -> float:
            return super().loss(outputs, [target["y"] for target in targets])

    samples = Samples(inputs=SAMPLES.inputs, targets=None)
    task = Untaught(name="untaught", path=Path("task.py"))
    found = quality.judge(task, samples, {"y": off_by(0.003)}, EXPECTED)
    assert found.fidelity == "drifted"
    assert found.metrics["score"] == pytest.approx(100 - 0.3 / 12, rel=1e-4)


@pytest.mark.parametrize(
    ("scale", "fidelity"),
    [(1.0, "exact"), (1 + 5e-7, "close"), (1.01, "drifted"), (3.0, "drifted"), (np.nan, "broken")],
)
def test_elements_are_compared_without_a_metric(scale: float, fidelity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Distance, "metrics", None)
    expected = {"y": np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)}
    found = quality.compare(
        Distance(name="distance", path=Path()), {"y": (expected["y"] * scale).astype(np.float32)}, expected
    )
    assert found.fidelity == fidelity
    if fidelity != "broken":
        assert found.max_abs_error == pytest.approx(2 * (scale - 1), rel=0.3)
        assert found.relative_error == pytest.approx(scale - 1, rel=0.3)


def test_an_error_is_seen_wherever_it_lies() -> None:
    """Outputs are compared in pieces, of which the last is shorter than the others."""
    expected = np.linspace(-3, 2, 2 * fidelity.PIECE + 5, dtype=np.float32).reshape(1, -1)
    for place in (0, fidelity.PIECE - 1, fidelity.PIECE, 2 * fidelity.PIECE + 4):
        output = expected.copy()
        output[0, place] += 0.5
        assert differences._errors(output, expected) == pytest.approx((0.5, 0.5 / 3), rel=1e-6)
        power = float((expected.astype(np.float64) ** 2).sum())
        assert fidelity.noise_share(output, expected) == pytest.approx(0.25 / power, rel=1e-6)


@pytest.mark.parametrize("place", [0, fidelity.PIECE + 1])
def test_a_nan_is_an_error(place: int) -> None:
    expected = np.ones((1, fidelity.PIECE + 9), np.float32)
    broken = expected.copy()
    broken[0, place] = np.nan
    for output, right in ((broken, expected), (expected, broken)):
        assert np.isnan(differences._errors(output, right)).all() or np.isnan(differences._errors(output, right)[0])
        assert np.isnan(fidelity.noise_share(output, right))
