"""The points of samples of a user's data set: from them follows how much of the metric may be lost."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Points, Samples, Task, TensorSpec
from bench.api.errors import InputError
from bench.pipeline import quality
from bench.records.lines import Quality
from bench.records.metric_loss import Lost
from bench.tasks import metrics

NUM_SAMPLES = 40
Y = TensorSpec(name="y", dtype="float32", shape=("batch", 3))


def task_of(kind: type[Task], **fields: Any) -> Task:
    made = type("Own", (kind,), {"inputs": (), "outputs": (Y,), **fields})
    found: Task = made(name="own", path=Path("task.py"))
    return found


def judge(task: Task, y: np.ndarray, reference: np.ndarray, targets: list[Any]) -> Quality:
    samples = Samples(inputs={"x": np.zeros(len(y))}, targets=targets)
    return quality.judge(task, samples, {"y": y}, {"y": reference})


def test_accuracy_counts_the_share_of_a_samples_targets_that_is_right() -> None:
    classes = np.zeros((4, 2), np.int64)
    classes[1, 0], classes[3] = 1, 1
    points = task_of(metrics.Accuracy, judged="y").points({"y": classes}, list(np.zeros((4, 2), np.int64)))
    assert isinstance(points, Points)
    assert points.values.tolist() == [1, 0.5, 1, 0]
    assert (points.score, points.most) == (0.625, 1)


def test_an_error_that_grows_loses_at_least_its_share() -> None:
    """Half of what its square loses is the upper end of what a root loses, and near it where little is lost."""
    generator = np.random.default_rng(0)
    targets = generator.normal(0, 1, (NUM_SAMPLES, 3))
    reference = targets + generator.normal(0, 0.1, targets.shape)
    worse = targets + (reference - targets) * 1.01
    found = judge(task_of(metrics.Rmse, judged="y"), worse, reference, list(targets))
    assert isinstance(found.lost, Lost)
    assert found.metric_loss == pytest.approx(0.01)
    share = sum(points for _, points in found.lost.points) / NUM_SAMPLES / found.lost.score
    assert share == pytest.approx(0.01, rel=0.01)
    assert share >= 0.01
    assert found.lost.most == pytest.approx(((targets - targets.mean(axis=0)) ** 2).mean(axis=1).max() / 2)
    assert found.lost.high() > share


def own(folder: Path, text: str, **fields: Any) -> Task:
    metrics_of = "def metrics(outputs, targets):\n    return {'mine': float(per_sample(outputs, targets).mean())}\n"
    body = f"import numpy as np\nmetric_name = 'mine'\ndef samples(split): ...\n{metrics_of}{text}"
    path = folder / f"data{abs(hash(text))}.py"
    path.write_text(body)
    return task_of(metrics.OwnMetrics, data=str(path), metric_name="mine", **fields)


DISTANCE = "def per_sample(outputs, targets):\n    return np.abs(outputs['y'] - np.stack(targets)).mean(axis=1)\n"
RIGHT, OFF = np.zeros((NUM_SAMPLES, 3)), np.full((NUM_SAMPLES, 3), 0.25)


@pytest.mark.parametrize(
    ("text", "fields", "score", "most", "share"),
    [
        (DISTANCE, {}, 0.25, 0.25, -0.02),
        (DISTANCE, {"higher_is_better": False, "is_error_rate": True}, 0.75, 0.75, 0.005 / 0.75),
        (f"{DISTANCE}worst = 10\n", {"higher_is_better": False}, 0.25, 9.75, 0.02),
    ],
    ids=["score", "error rate", "error"],
)
def test_numbers_of_a_python_file_are_points(
    text: str, fields: dict[str, Any], score: float, most: float, share: float, tmp_path: Path
) -> None:
    """One sample of 40 is 0.2 farther off, which is 0.005 of the mean: a gain where more is better."""
    y = OFF.copy()
    y[7] += 0.2
    found = judge(own(tmp_path, text, **fields), y, OFF, list(RIGHT))
    assert isinstance(found.lost, Lost)
    assert (found.lost.score, found.lost.most) == (pytest.approx(score), pytest.approx(most))
    ((row, points),) = found.lost.points
    assert (row, points / NUM_SAMPLES / score) == (7, pytest.approx(share, rel=1e-5))
    assert found.metric_loss == pytest.approx(share)


@pytest.mark.parametrize(
    ("text", "fields", "says"),
    [
        ("", {}, "has no per_sample(outputs, targets)"),
        (DISTANCE, {"higher_is_better": False}, "does not say how bad a sample can be: worst = ..."),
    ],
)
def test_a_python_file_that_says_too_little_has_no_bound(
    text: str, fields: dict[str, Any], says: str, tmp_path: Path
) -> None:
    found = own(tmp_path, text, **fields).points({"y": OFF}, list(RIGHT))
    assert isinstance(found, str)
    assert found.endswith(says)


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("np.zeros(3)", r"must return 40 numbers, whose mean is mine, 0\.25; it returns shape \(3,\), mean 0"),
        ("np.zeros(len(targets))", r"whose mean is mine, 0\.25; it returns shape \(40,\), mean 0"),
        ("np.zeros((0,))", r"shape \(0,\), mean nan"),
    ],
)
def test_numbers_that_are_not_those_of_the_metric_are_refused(returned: str, says: str, tmp_path: Path) -> None:
    text = f"def per_sample(outputs, targets):\n    return {returned}\n"
    fixed = f"{text}def metrics(outputs, targets):\n    return {{'mine': 0.25}}\n"
    with pytest.raises(InputError, match=says):
        own(tmp_path, fixed).points({"y": OFF}, list(RIGHT))


def test_fidelity_alone_has_no_bound() -> None:
    found = judge(task_of(metrics.OwnTask), OFF, OFF, None)  # type: ignore[arg-type]
    assert found.lost == "it is judged by fidelity alone"
    assert not math.isnan(found.metric_loss or 0.0)
