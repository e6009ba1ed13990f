"""Models whose outputs hold infinities or NaNs by design, or as many rows as the data of a sample give them.

Each is judged on two runtimes as in a sweep: its reference is sound, and what computes the same is exact or close.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import cache, ragged
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.measure.limits import Limits
from bench.pipeline import feeding, verify
from bench.pipeline.flow import Verified
from bench.plugins import catalog
from bench.records.lines import Quality
from bench.tasks import adopt

pytestmark = pytest.mark.slow(seconds=4)

FLOAT, HALF, INT64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64
LIMITS = Limits.of(step_s=120, memory_bytes=2**31)
RAW, BOUND = (f"onnx/native/raw/{name}/cpu/b1t1" for name in ("onnxruntime", "onnxruntime_iobinding"))
WEIGHTS = np.random.default_rng(15).normal(0, 0.3, (20, 12)).astype(np.float32)
ALLOWED = np.ones(12, bool)
ALLOWED[[2, 5, 11]] = False
Value = tuple[str, int, list[Any]]


def model_of(
    nodes: list[onnx.NodeProto], inputs: list[Value], outputs: list[Value], weights: dict[str, np.ndarray]
) -> onnx.ModelProto:
    sides = [[helper.make_tensor_value_info(*value) for value in side] for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, "graph", *sides, [numpy_helper.from_array(*one[::-1]) for one in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def masked(low: float, kind: int = FLOAT) -> onnx.ModelProto:
    """Scores of actions, of which those that are forbidden have the score `low`, and their probabilities."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    return model_of(
        [
            helper.make_node("MatMul", ["x", "w"], ["s"]),
            helper.make_node("Where", ["allowed", "s", "low"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["probabilities"], axis=-1),
        ],
        [("x", kind, ["N", 20])],
        [("scores", kind, ["N", 12]), ("probabilities", kind, ["N", 12])],
        {"w": WEIGHTS.astype(dtype), "allowed": ALLOWED, "low": np.array(low, dtype)},
    )


def zero_over_zero() -> onnx.ModelProto:
    """The mean of the values above zero of each of three groups, one of which is always empty."""
    return model_of(
        [
            helper.make_node("MatMul", ["x", "w"], ["s"]),
            helper.make_node("Relu", ["s"], ["r"]),
            helper.make_node("MatMul", ["r", "groups"], ["sums"]),
            helper.make_node("Div", ["sums", "counts"], ["means"]),
        ],
        [("x", FLOAT, ["N", 20])],
        [("means", FLOAT, ["N", 3])],
        {
            "w": WEIGHTS,
            "groups": np.repeat(np.eye(3, dtype=np.float32) * [[1], [1], [0]], 4, axis=0).astype(np.float32),
            "counts": np.array([4, 4, 0], np.float32),
        },
    )


def boxes_left(least: float) -> onnx.ModelProto:
    """The boxes of 64 that are left where their scores are above `least` and they do not overlap."""
    grid = np.stack(np.meshgrid(np.arange(8), np.arange(8), indexing="ij"), -1).reshape(-1, 2).astype(np.float32) / 8
    weights = {
        "w": np.random.default_rng(31).normal(0, 0.05, (6, 3, 4, 4)).astype(np.float32),
        "s": np.array([1, 6, 64]),
        "sizes": np.array([4, 2]),
        "anchors": np.concatenate([grid, grid + 0.2], 1)[None],
        "most": np.array([50]),
        "iou": np.array([0.4], np.float32),
        "least": np.array([least], np.float32),
        "two": np.array([2]),
        "three": np.array([3]),
        "one_axis": np.array([1]),
        "zero_axis": np.array([0]),
    }
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], strides=[4, 4], kernel_shape=[4, 4]),
        helper.make_node("Reshape", ["c", "s"], ["r"]),
        helper.make_node("Split", ["r", "sizes"], ["raw_boxes", "raw_scores"], axis=1),
        helper.make_node("Transpose", ["raw_boxes"], ["boxes0"], perm=[0, 2, 1]),
        helper.make_node("Add", ["boxes0", "anchors"], ["boxes"]),
        helper.make_node("Sigmoid", ["raw_scores"], ["scores"]),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["selected"]),
        helper.make_node("Slice", ["selected", "two", "three", "one_axis"], ["index0"]),
        helper.make_node("Squeeze", ["index0", "one_axis"], ["index"]),
        helper.make_node("Gather", ["boxes", "index"], ["picked"], axis=1),
        helper.make_node("Squeeze", ["picked", "zero_axis"], ["detections"]),
    ]
    outputs: list[Value] = [("selected", INT64, ["k", 3]), ("detections", FLOAT, ["k", 4])]
    return model_of(nodes, [("image", FLOAT, [1, 3, 32, 32])], outputs, weights)


def places(least: float) -> onnx.ModelProto:
    """The places of the products that are above `least`."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["s"]),
        helper.make_node("Greater", ["s", "least"], ["is_more"]),
        helper.make_node("NonZero", ["is_more"], ["places"]),
    ]
    weights = {"w": WEIGHTS, "least": np.array(least, np.float32)}
    return model_of(nodes, [("x", FLOAT, [1, 20])], [("places", INT64, [2, "found"])], weights)


def distinct() -> onnx.ModelProto:
    """The different values of products that are rounded, and how often each occurs."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["s"]),
        helper.make_node("Round", ["s"], ["r"]),
        helper.make_node("Unique", ["r"], ["values", "", "", "counts"]),
    ]
    outputs: list[Value] = [("values", FLOAT, ["found"]), ("counts", INT64, ["found"])]
    return model_of(nodes, [("x", FLOAT, [1, 20])], outputs, {"w": WEIGHTS})


def as_many_as_positive() -> onnx.ModelProto:
    """The largest products: as many of them as are above zero."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["s"]),
        helper.make_node("Greater", ["s", "zero"], ["is_more"]),
        helper.make_node("Cast", ["is_more"], ["ones"], to=INT64),
        helper.make_node("ReduceSum", ["ones", "axes"], ["k"], keepdims=0),
        helper.make_node("TopK", ["s", "k"], ["largest", "which"], axis=1),
    ]
    weights = {"w": WEIGHTS, "zero": np.array(0, np.float32), "axes": np.array([1])}
    outputs: list[Value] = [("largest", FLOAT, [1, "k"]), ("which", INT64, [1, "k"])]
    return model_of(nodes, [("x", FLOAT, [1, 20])], outputs, weights)


@pytest.fixture
def judged(plugin_folder: Path, tmp_path: Path) -> Callable[..., tuple[list[Quality], dict[str, np.ndarray], Any]]:
    """Qualities of a model in some cells, its reference's outputs, and what was said when it was adopted."""

    def judge(model: onnx.ModelProto, *cells: str) -> tuple[list[Quality], dict[str, np.ndarray], Any]:
        (tmp_path / "own.onnx").write_bytes(model.SerializeToString())
        adopted = adopt.adopt(tmp_path / "own.onnx")
        found = [verify.from_name(Cell.from_path(f"{adopted.name}/{cell}"), LIMITS) for cell in cells]
        assert all(isinstance(one, Verified) for one in found), found
        reference = verify.reference_of(catalog.task(adopted.name), LIMITS)
        qualities = [one.quality for one in found if isinstance(one, Verified)]
        return qualities, feeding.load_outputs(reference.outputs), adopted

    return judge


@pytest.mark.parametrize(
    ("model", "output", "num_not_finite"),
    [
        (masked(-np.inf), "scores", 24),
        (masked(np.inf), "scores", 24),
        (masked(np.nan), "scores", 24),
        (masked(-np.inf, HALF), "scores", 24),
        (zero_over_zero(), "means", 8),
    ],
    ids=["minus infinity", "plus infinity", "NaN", "minus infinity in float16", "0 / 0"],
)
def test_values_that_are_not_finite_by_design(
    model: onnx.ModelProto, output: str, num_not_finite: int, judged: Any
) -> None:
    (own, bound), outputs, adopted = judged(model, RAW, BOUND)
    assert np.count_nonzero(~np.isfinite(outputs[output])) == num_not_finite
    assert (own.fidelity, own.reason, own.metrics) == ("exact", None, {"snr_db": 120.0})
    assert (bound.fidelity, bound.reason) == ("exact", None)
    if output == "scores" and not np.isfinite(outputs["probabilities"]).any():  # of scores that hold +inf or NaN
        assert bound.doubts is not None
        assert "no value of output probabilities is finite" in bound.doubts
        assert any("'probabilities' is not finite for made-up inputs" in note for note in adopted.notes)
    else:
        assert not [note for note in adopted.notes if "finite" in note]


@pytest.mark.parametrize(
    ("model", "output", "is_even"),
    [
        (boxes_left(0.55), "selected", False),
        (boxes_left(0.999), "selected", True),
        (places(0.5), "places", False),
        (places(1e9), "places", True),
        (distinct(), "values", False),
        (as_many_as_positive(), "largest", False),
    ],
    ids=["NonMaxSuppression", "no box is left", "NonZero", "nothing is above zero", "Unique", "TopK"],
)
def test_rows_that_depend_on_the_data(model: onnx.ModelProto, output: str, is_even: bool, judged: Any) -> None:
    (own, bound), outputs, adopted = judged(model, RAW, BOUND)
    assert len(outputs[output]) == 8
    assert ragged.is_ragged(outputs[output]) != is_even
    assert (own.fidelity, own.reason) == ("exact", None)
    assert (bound.fidelity, bound.reason) == ("exact", None)
    assert own.io_bytes > 0
    if is_even:
        assert outputs[output].size == 0
        assert any(f"{output!r} is empty for made-up inputs" in note for note in adopted.notes)


def test_a_deployment_that_keeps_another_number_of_boxes_is_told_so(judged: Any, tmp_path: Path) -> None:
    """As one in a lower precision does, whose scores near the limit fall on its other side."""
    _, outputs, adopted = judged(boxes_left(0.55))
    reference = verify.reference_of(catalog.task(adopted.name), LIMITS)
    path = tmp_path / "fewer.onnx"
    path.write_bytes(boxes_left(0.56).SerializeToString())
    fewer = Artifact(path=path, format="onnx", sha256=cache.file_digest(path), size_bytes=path.stat().st_size)
    found = verify.verify(reference.cell, fewer, reference, LIMITS)
    counts = [len(selected) for selected in outputs["selected"]]
    assert (found.fidelity, found.metrics) == ("broken", None)
    assert re.search(
        rf"output selected has another shape than the reference's in \d of 8 samples: sample 0 has \d+ rows, the "
        rf"reference {counts[0]}; output detections",
        found.reason or "",
    )


def ties(seed: int) -> onnx.ModelProto:
    """The places where one of two products is the larger, though they are the same but for rounding."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["one"]),
        helper.make_node("MatMul", ["x", "v"], ["other"]),
        helper.make_node("Greater", ["one", "other"], ["is_more"]),
        helper.make_node("NonZero", ["is_more"], ["places"]),
    ]
    off = np.random.default_rng(seed).uniform(-1e-6, 1e-6, WEIGHTS.shape)
    made = {"w": WEIGHTS, "v": (WEIGHTS * (1 + off)).astype(np.float32)}
    return model_of(nodes, [("x", FLOAT, [1, 20])], [("places", INT64, [2, "found"])], made)


JUDGES = """
import numpy as np

metric_name = "found"

def samples(split):
    x = np.random.default_rng(3).normal(size=(10, 1, 20)).astype(np.float32)
    return {"x": x}, [0] * 10

def metrics(outputs, targets):
    return {"found": float(np.mean([np.shape(each)[1] for each in outputs["places"]]))}
"""


@pytest.mark.parametrize(
    ("right", "other", "fidelity"),
    [(places(0.5), places(0.6), "broken"), (places(0.5), places(1e9), "broken"), (ties(1), ties(2), "drifted")],
    ids=["fewer places", "none in any sample", "what rounding does, too"],
)
def test_a_metric_of_ones_own_does_not_excuse_a_shape_that_rounding_never_makes(
    right: onnx.ModelProto, other: onnx.ModelProto, fidelity: str, plugin_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "data.py").write_text(JUDGES)
    (tmp_path / "own.onnx").write_bytes(right.SerializeToString())
    adopted = adopt.adopt(tmp_path / "own.onnx", adopt.Options(dataset=tmp_path / "data.py"))
    reference = verify.reference_of(catalog.task(adopted.name), LIMITS)
    path = tmp_path / "other.onnx"
    path.write_bytes(other.SerializeToString())
    artifact = Artifact(path=path, format="onnx", sha256=cache.file_digest(path), size_bytes=path.stat().st_size)
    found = verify.verify(reference.cell, artifact, reference, LIMITS)
    assert found.precision == "float32"
    assert found.fidelity == fidelity
    if fidelity == "broken":
        assert "float32 throughout, but output places has another shape than the reference's in" in str(found.reason)
        assert "rounding changes the shape of none" in str(found.reason)


def test_targets_of_an_output_with_a_shape_for_each_sample(plugin_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "own.onnx").write_bytes(distinct().SerializeToString())
    x = np.random.default_rng(0).normal(size=(10, 20)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x[:, None], targets=np.zeros((10, 3), np.int64))
    with pytest.raises(InputError, match=r"by the data of the sample, and targets are compared in one shape"):
        adopt.adopt(tmp_path / "own.onnx", adopt.Options(dataset=tmp_path / "data.npz"))
