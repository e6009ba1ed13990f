"""Quality of outputs that hold infinities or NaNs by design, or whose shapes follow from the data of the samples."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from bench.api import Samples, TensorSpec, ragged
from bench.pipeline import quality
from bench.pipeline.quality import Part
from bench.records.lines import Quality
from bench.tasks import metrics
from bench.tasks.user_task import OwnTask

NUM = 4
SCORES = np.arange(1, 13, dtype=np.float32).reshape(NUM, 3)
MASKED = np.where(np.arange(3) == 1, np.float32(-np.inf), SCORES)
SAMPLES = Samples(inputs={"x": np.zeros((NUM, 2), np.float32)}, targets=None)


class Own(OwnTask):
    sources = ("onnx",)
    inputs = (TensorSpec(name="x", dtype="float32", shape=("n", 2)),)
    outputs: ClassVar[tuple[TensorSpec, ...]] = (TensorSpec(name="y", dtype="float32", shape=("n", 3)),)


class Boxes(Own):
    """A detector: each image has another number of rows."""

    batched = False
    inputs = (TensorSpec(name="x", dtype="float32", shape=(2,)),)
    outputs = (
        TensorSpec(name="y", dtype="float32", shape=("rows", 2)),
        TensorSpec(name="index", dtype="int64", shape=("rows",)),
    )


OWN, BOXES = (kind(name="own", path=Path("task.py")) for kind in (Own, Boxes))


def judge(y: np.ndarray, expected: np.ndarray | None = MASKED, part: Part | None = None) -> Quality:
    return quality.judge(OWN, SAMPLES, {"y": y}, None if expected is None else {"y": expected}, part=part)


def detected(*counts: int, scale: float = 1.0) -> dict[str, np.ndarray]:
    return {
        "y": ragged.stacked(scale * np.arange(1, 2 * n + 1, dtype=np.float32).reshape(n, 2) for n in counts),
        "index": ragged.stacked(np.arange(n) for n in counts),
    }


def test_a_reference_with_a_mask_is_sound() -> None:
    found = judge(MASKED, None)
    assert (found.fidelity, found.reason, found.doubts) == ("exact", None, None)
    assert (found.loss, found.metrics) == (0.0, {"snr_db": 120.0})


@pytest.mark.parametrize(
    ("scale", "fidelity", "snr_db"), [(1.0, "exact", 120.0), (1 + 2**-14, "close", 84.3), (1.01, "drifted", 40.0)]
)
def test_outputs_with_the_same_mask_are_compared_by_their_finite_values(
    scale: float, fidelity: str, snr_db: float
) -> None:
    found = judge(MASKED * np.float32(scale))
    assert found.fidelity == fidelity
    assert found.metrics is not None
    assert found.metrics["snr_db"] == pytest.approx(snr_db, abs=0.1)
    assert found.max_abs_error == pytest.approx(12 * (scale - 1), rel=1e-3)
    finite = np.delete(SCORES, 1, axis=1)
    assert found.loss == pytest.approx(float(np.mean((finite * (scale - 1)) ** 2)), rel=1e-2)


def test_a_mask_elsewhere_is_broken_and_the_sample_is_that_of_the_split() -> None:
    part = Part(rows=[3, 0], loss=0.0, metrics={"snr_db": 120.0})
    wrong = MASKED[[3, 0]]
    assert judge(wrong, part=part).fidelity == "exact"
    wrong[0, 1] = -65_504
    found = judge(wrong, part=part)
    assert (found.fidelity, found.metrics, found.num_samples) == ("broken", None, 2)
    assert found.reason == (
        "output y holds 1 finite values where the reference's are not finite, of 6; the first, -65504 in sample 3 at "
        "[1], is -inf in the reference"
    )


def test_an_output_that_is_never_finite_says_little() -> None:
    for expected in (None, MASKED * np.nan):
        found = judge(MASKED * np.nan, expected)
        assert found.fidelity == "exact"
        assert found.doubts == (
            "no value of output y is finite in the reference either, so its fidelity says little; give samples with "
            "--dataset"
        )


@pytest.mark.parametrize("counts", [(2, 0, 3, 1), (0, 0, 0, 0)])
def test_rows_that_depend_on_the_data_are_compared_sample_by_sample(counts: tuple[int, ...]) -> None:
    made = detected(*counts)
    assert quality.judge(BOXES, SAMPLES, made, None).fidelity == "exact"
    assert quality.judge(BOXES, SAMPLES, made, detected(*counts)).fidelity == "exact"
    assert quality.compare(BOXES, made, detected(*counts)).fidelity == "exact"
    if any(counts):
        found = quality.judge(BOXES, SAMPLES, detected(*counts, scale=1.01), made)
        assert (found.fidelity, found.metrics) == ("drifted", {"snr_db": pytest.approx(40, abs=0.1)})


EMPTY = (
    "output {} has no element in any sample that ran, and neither has the reference's, so nothing of it was compared; "
    "give samples with --dataset for which it has some"
)


@pytest.mark.parametrize("is_reference", [True, False])
def test_outputs_without_an_element_say_that_nothing_was_compared(is_reference: bool) -> None:
    nothing = {"y": np.zeros((NUM, 0, 2), np.float32), "index": np.zeros((NUM, 0), np.int64)}
    found = quality.judge(BOXES, SAMPLES, nothing, None if is_reference else nothing)
    assert (found.fidelity, found.doubts) == ("exact", f"{EMPTY.format('y')}; {EMPTY.format('index')}")
    assert quality.compare(BOXES, nothing, nothing).fidelity == "exact"
    assert quality.judge(BOXES, SAMPLES, detected(0, 0, 0, 1), detected(0, 0, 0, 1)).doubts is None
    part = Part(rows=[2, 1], loss=0.0, metrics={"snr_db": 120.0})
    few = quality.judge(BOXES, SAMPLES, detected(0, 0), detected(4, 0, 0, 1), part=part)
    assert few.doubts == found.doubts


def test_integers_that_float64_does_not_tell_apart_are_not_exact() -> None:
    """As hashes, all of which are wrong."""
    right = 2**53 + 2 * np.arange(3 * NUM, dtype=np.int64).reshape(NUM, 3)
    found = judge(right + 1, right)
    assert (found.fidelity, found.metrics, found.max_abs_error) == ("broken", {"snr_db": 0.0}, 1.0)
    assert judge(right, right).fidelity == "exact"
    assert judge(right.astype(np.uint64), right).fidelity == "exact"
    assert judge((right + 1).astype(np.uint64), right).fidelity == "broken"
    assert judge(right.astype(np.float64) + 2, right).fidelity == "broken"
    part = Part(rows=[3, 1], loss=0.0, metrics={"snr_db": 120.0})
    assert judge(right[[3, 1]].astype(np.float64), right + 1, part).fidelity == "broken"


def test_a_spot_check_takes_no_other_integers_for_close() -> None:
    """However near they are by number: as hashes, they are all wrong."""
    right = {"y": SCORES, "index": 2**53 + np.arange(NUM, dtype=np.int64)}
    assert quality.compare(BOXES, {**right, "y": SCORES * np.float32(1 + 1e-6)}, right).fidelity == "close"
    found = quality.compare(BOXES, {**right, "index": right["index"] + 1}, right)
    assert (found.fidelity, found.max_abs_error) == ("drifted", 1.0)
    texts = {"y": SCORES, "index": np.array(["a", "b", "c", "d"])}
    assert quality.compare(BOXES, texts, {**texts, "index": texts["index"][::-1]}).fidelity == "drifted"


def test_another_number_of_rows_is_broken_and_told() -> None:
    found = quality.judge(BOXES, SAMPLES, detected(2, 0, 3, 5), detected(2, 0, 3, 6))
    assert (found.fidelity, found.metrics, found.max_abs_error) == ("broken", None, 0.0)
    assert found.reason is not None
    assert found.reason.startswith(
        "output y has another shape than the reference's in 1 of 4 samples: sample 3 has 5 rows, the reference 6; "
    )
    assert found.reason.endswith("; the other 3 samples are equal")
    assert quality.compare(BOXES, detected(2, 0, 3, 5), detected(2, 0, 3, 6)).fidelity == "broken"


def test_a_part_of_the_samples_with_shapes_of_their_own() -> None:
    part = Part(rows=[3, 1], loss=0.0, metrics={"snr_db": 120.0})
    found = quality.judge(BOXES, SAMPLES, detected(6, 0), detected(2, 0, 3, 6), part=part)
    assert (found.fidelity, found.metrics) == ("exact", {"snr_db": 120.0})
    found = quality.judge(BOXES, SAMPLES, detected(6, 1), detected(2, 0, 3, 6), part=part)
    assert found.reason is not None
    assert "sample 1 has 1 row, the reference 0" in found.reason


MODULE = """
import numpy as np

metric_name = "found"

def samples(split):
    return {"x": np.zeros((4, 2), np.float32)}, [2, 0, 3, 6]

def metrics(outputs, targets):
    return {"found": float(np.mean([min(len(boxes), n) / max(n, 1) for boxes, n in zip(outputs["y"], targets)]))}

def per_sample(outputs, targets):
    return [min(len(boxes), n) / max(n, 1) for boxes, n in zip(outputs["y"], targets)]
"""


def test_a_metric_of_ones_own_judges_another_number_of_rows(tmp_path: Path) -> None:
    """As of a detector, whose boxes need not be as many as the reference's to be as good."""
    (tmp_path / "data.py").write_text(MODULE)

    class Judged(metrics.OwnMetrics, Boxes):
        data = str(tmp_path / "data.py")
        metric_name = "found"

    task = Judged(name="own", path=Path("task.py"))
    samples = task.samples("test")
    whole = quality.judge(task, samples, detected(2, 0, 3, 6), None)
    assert (whole.fidelity, whole.metrics) == ("exact", {"found": 0.75})
    found = quality.judge(task, samples, detected(2, 0, 3, 3), detected(2, 0, 3, 6))
    assert (found.fidelity, found.metrics, found.metric_loss) == ("drifted", {"found": 0.625}, pytest.approx(1 / 6))
    assert found.doubts is not None
    assert "sample 3 has 3 rows, the reference 6" in found.doubts
    part = Part(rows=[3, 0], loss=None, metrics={"found": 0.75})
    few = quality.judge(task, samples, detected(3, 2), detected(2, 0, 3, 6), part=part)
    assert (few.fidelity, few.metrics) == ("drifted", {"found": 0.5})
    wrong = {**detected(2, 0, 3, 6), "index": np.zeros((4, 9), np.int64)}
    assert quality.judge(task, samples, wrong, detected(2, 0, 3, 6)).fidelity == "drifted", "it is not judged"


def test_a_metric_of_ones_own_does_not_excuse_another_stated_shape(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(MODULE)

    class Judged(metrics.OwnMetrics, Own):
        data = str(tmp_path / "data.py")
        metric_name = "found"

    task = Judged(name="own", path=Path("task.py"))
    found = quality.judge(task, task.samples("test"), {"y": SCORES[:, :2]}, {"y": SCORES})
    assert (found.fidelity, found.reason) == ("broken", "output y has shape (4, 2); the reference has (4, 3)")
    assert found.max_abs_error is None


@pytest.mark.parametrize("value", [-np.inf, np.nan])
def test_classes_are_chosen_among_scores_that_are_masked(value: float) -> None:
    """A class that may not be chosen is never the largest; where a score is NaN, no class is right."""

    class Chosen(metrics.Accuracy, Own):
        judged = "y"
        axis = 0

    task = Chosen(name="own", path=Path("task.py"))
    scores = SCORES.copy()
    scores[:2, 0] = value
    samples = Samples(inputs=SAMPLES.inputs, targets=[np.int64(2)] * NUM)
    found = quality.judge(task, samples, {"y": scores}, None)
    share = 0.5 if np.isnan(value) else 1.0
    assert (found.fidelity, found.metrics) == ("exact", {"accuracy": share})


def test_a_reference_whose_metric_is_no_number_judges_equal_outputs_alone() -> None:
    class Error(metrics.Rmse, Own):
        judged = "y"

    task = Error(name="own", path=Path("task.py"))
    samples = Samples(inputs=SAMPLES.inputs, targets=[*SCORES])
    assert quality.judge(task, samples, {"y": MASKED}, {"y": MASKED.copy()}).fidelity == "exact"
    found = quality.judge(task, samples, {"y": MASKED * np.float32(1.01)}, {"y": MASKED})
    assert found.fidelity == "broken"
    assert found.reason is not None
    assert found.reason.startswith("rmse of the reference is no finite number, so only outputs that equal its own")


def test_targets_are_not_compared_with_an_output_of_several_shapes() -> None:
    class Chosen(metrics.Accuracy, Boxes):
        judged = "index"

    task = Chosen(name="own", path=Path("task.py"))
    samples = Samples(inputs=SAMPLES.inputs, targets=[np.int64(2)] * NUM)
    with pytest.raises(Exception, match=r"output 'index' has shapes from \(0,\) to \(3,\) by the data of the sample"):
        quality.judge(task, samples, detected(2, 0, 3, 1), None)
