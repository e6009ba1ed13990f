"""What a deployment may lose that claims to lose nothing: no more than rounding explains."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import TensorSpec
from bench.api.cell import Cell
from bench.api.errors import ChildError
from bench.api.loading import load_module
from bench.measure.limits import Limits
from bench.pipeline import quality, rounding, verify
from bench.pipeline.flow import Verified
from bench.plugins import catalog, generating
from bench.records.lines import Quality
from bench.tasks import adopt
from bench.tasks.user_task import OwnTask
from support import records

pytestmark = pytest.mark.slow(seconds=0.5)

LIMITS = Limits.of(step_s=60, memory_bytes=2**31)
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
REFERENCE = records.quality(fidelity="exact")


class Both(OwnTask):
    """A task with a float output and one of classes."""

    sources = ("onnx",)
    inputs = (TensorSpec(name="x", dtype="float32", shape=("batch", 4)),)
    outputs = (
        TensorSpec(name="y", dtype="float32", shape=("batch", 4)),
        TensorSpec(name="label", dtype="int64", shape=("batch",)),
    )


TASK = Both(name="both", path=Path("task.py"))


def share(ratio_db: float) -> float:
    return float(10 ** (-ratio_db / 10))


def judged(
    shares: Mapping[str, float],
    explained: Mapping[str, float] | None = None,
    *,
    reference: str | None = "float32",
    **quality: object,
) -> Quality:
    found = records.quality(**{"fidelity": "drifted", **quality})
    return rounding.judged(TASK, found, shares, records.quality(precision=reference), lambda: explained)


def never() -> Mapping[str, float]:
    raise AssertionError("what passes at once needs no further run")


@pytest.mark.parametrize("ratio_db", [10.06, 11.08, 30.0, 59.0])
def test_what_rounding_does_not_explain_is_broken_with_both_figures(ratio_db: float) -> None:
    found = judged({"y": share(ratio_db)}, {"y": share(110)})
    assert found.fidelity == "broken"
    assert found.reason == (
        f"float32 throughout, but the signal-to-noise ratio of output y is {ratio_db:.1f} dB, and rounding explains no "
        "less than 60.0 dB; no step of this cell claims to lose anything"
    )
    assert found.metrics == records.QUALITY.metrics, "the figures stay"


@pytest.mark.parametrize("fidelity", ["close", "drifted", "exact"])
def test_sixty_decibels_pass_at_once(fidelity: str) -> None:
    found = records.quality(fidelity=fidelity)
    assert rounding.judged(TASK, found, {"y": share(61)}, REFERENCE, never) == found


@pytest.mark.parametrize(("by_rounding", "fidelity"), [(41.0, "drifted"), (45.9, "drifted"), (47.0, "broken")])
def test_what_the_model_itself_loses_by_rounding_is_allowed_with_a_margin_of_6_db(
    by_rounding: float, fidelity: str
) -> None:
    assert judged({"y": share(40)}, {"y": share(by_rounding)}).fidelity == fidelity


@pytest.mark.parametrize(
    ("own", "reference", "fidelity"),
    [
        ("float32", "float32", "broken"),
        ("float64", "float64", "broken"),
        ("float64", "float32", "broken"),
        ("float32", "float64", "drifted"),  # a float32 export of a model of float64 loses something
        ("bfloat16", "float32", "drifted"),
        ("int8", "float32", "drifted"),
        ("float32", "int8", "drifted"),
        (None, "float32", "drifted"),
        ("float32", None, "drifted"),
    ],
)
def test_only_what_ran_as_wide_as_the_reference_claims_to_lose_nothing(
    own: str | None, reference: str | None, fidelity: str
) -> None:
    assert judged({"y": share(20)}, {}, precision=own, reference=reference).fidelity == fidelity


def test_a_model_that_rounds_by_itself_has_the_limits_of_its_task() -> None:
    assert judged({"y": share(20)}, None).fidelity == "drifted"


@pytest.mark.parametrize(
    ("differing", "by_rounding", "fidelity"),
    [
        (1 / 3, 0.0, "broken"),
        (1 / 3, 0.01, "broken"),
        (0.02, 0.01, "close"),  # a tie or two
        (0.125, 0.125, "close"),
        (0.0, 0.0, "close"),
    ],
)
def test_classes_that_are_near_by_number_are_not_alike(differing: float, by_rounding: float, fidelity: str) -> None:
    found = judged({"y": 1e-13, "label": differing}, {"label": by_rounding}, fidelity="close")
    assert found.fidelity == fidelity
    if fidelity == "broken":
        assert found.reason is not None
        assert "33.3 % of the values of output label differ, and rounding explains" in found.reason


def test_a_tolerance_of_the_task_is_that_of_its_numbers() -> None:
    assert judged({"y": share(30)}, {}, fidelity="close").fidelity == "close"


@pytest.mark.parametrize(
    ("path", "claims"),
    [
        ("both/torch/torch_onnx/raw/onnxruntime/cpu/b1t1", True),
        ("both/torch/torch_onnx/onnxsim+dedup/onnxruntime/cpu/b1t1", True),
        ("both/onnx/native/ort-all/onnxruntime/cpu+no_arena/b1t1", True),
        ("both/onnx/native/onnxscript/openvino/cpu/b1t1", True),
        ("both/onnx/native/raw/onnxruntime/cpu+gelu_approximation/b1t1", False),
        ("both/onnx/native/onnxsim+int8_dynamic/onnxruntime/cpu/b1t1", False),
        ("both/onnx/native/fp16/onnxruntime/cpu/b1t1", False),
        ("both/onnx/native/matmul_nbits-float/onnxruntime/cpu/b1t1", False),
    ],
)
def test_steps_that_may_lose_something_claim_nothing(path: str, claims: bool) -> None:
    assert rounding.claims_nothing_lost(Cell.from_path(path)) == claims


def test_changes_are_a_few_roundings_and_leave_what_is_no_float() -> None:
    generator = np.random.default_rng(0)
    arrays = {
        "x": np.array([1.0, -3e38, 0.0, np.inf, np.finfo(np.float32).min], np.float32),
        "ids": np.arange(3),
        "texts": np.array(["a"]),
    }
    found = rounding.changed_inputs(arrays, generator)
    assert found["ids"] is arrays["ids"]
    assert found["texts"] is arrays["texts"]
    assert found["x"].dtype == np.float32
    assert np.isfinite(found["x"][[0, 1, 4]]).all(), "the least number, by which masks are added, stays finite"
    assert 0 < abs(float(found["x"][0]) - 1) <= rounding.CHANGE
    assert (found["x"][2], found["x"][3]) == (0, np.inf)


def model(nodes: list[onnx.NodeProto], weights: Mapping[str, np.ndarray], kind: int = FLOAT) -> onnx.ModelProto:
    values = [
        helper.make_tensor_value_info("x", kind, ["batch", 8]),
        helper.make_tensor_value_info("y", FLOAT, None),
    ]
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", values[:1], values[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


W = np.random.default_rng(5).normal(size=(8, 8)).astype(np.float32)
PRODUCT = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": W})
CANCELS = model(
    [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["x", "v"], ["b"]),
        helper.make_node("Sub", ["a", "b"], ["y"]),
    ],
    {"w": W, "v": (W * (1 + 3e-6 * np.arange(1, 9))).astype(np.float32)},
)
"""The difference of two products that are nearly equal: in float32 its digits are mostly those of rounding."""
TOKENS = model(
    [
        helper.make_node("Gather", ["table", "x"], ["e"]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["a"]),
        helper.make_node("MatMul", ["f", "v"], ["b"]),
        helper.make_node("Sub", ["a", "b"], ["y"]),
    ],
    {
        "table": np.random.default_rng(6).normal(size=(200, 1)).astype(np.float32),
        "w": W,
        "v": (W * (1 + 3e-6 * np.arange(1, 9))).astype(np.float32),
    },
    INT64,
)
"""The same of a model whose inputs are integers, which no rounding changes."""
VARIANT = """
import onnx
from onnx import numpy_helper
from bench.api import Variant

class Changed(Variant):
    lossy = {lossy}

    def apply(self, source, target, *, option, task):
        model = onnx.load(source)
        stored = {{tensor.name: tensor for tensor in model.graph.initializer}}
        arrays = {{name: numpy_helper.to_array(tensor) for name, tensor in stored.items()}}
        {change}
        onnx.save(model, target)
        return {{}}
"""
WRONG = """stored["w"].CopyFrom(numpy_helper.from_array(arrays["w"] * arrays["w"].dtype.type(1.3), "w"))"""
MERGES = """for node in list(model.graph.node)[-3:]:
            model.graph.node.remove(node)
        fed = model.graph.node[-1].output[0] if model.graph.node else "x"
        merged = (arrays["w"].astype("f8") - arrays["v"]).astype("f4")
        model.graph.initializer.append(numpy_helper.from_array(merged, "merged"))
        model.graph.node.append(onnx.helper.make_node("MatMul", [fed, "merged"], ["y"]))"""
"""What an optimizer may do: one product in place of two, which rounds less."""


def verified(
    graph: onnx.ModelProto, change: str, folder: Path, *, lossy: bool = False, name: str = "changed"
) -> Verified:
    (folder / "variants").mkdir(exist_ok=True)
    (folder / "variants" / f"{name}.py").write_text(VARIANT.format(lossy=lossy, change=change))
    path = folder.parent / "net.onnx"
    path.write_bytes(graph.SerializeToString())
    task = adopt.adopt(path).name
    catalog.forget()
    found = verify.from_name(Cell.from_path(f"{task}/onnx/native/{name}/onnxruntime/cpu/b1t1"), LIMITS)
    assert isinstance(found, Verified), found
    return found


def test_the_limit_follows_what_a_step_claims_and_a_change_of_the_claim_judges_anew(plugin_folder: Path) -> None:
    """Else the row of a variant that says only later that it is lossy would stay broken."""
    first, second = (verified(PRODUCT, WRONG, plugin_folder, lossy=lossy) for lossy in (False, True))
    assert [found.quality.fidelity for found in (first, second)] == ["broken", "drifted"]
    for found in (first, second):
        assert found.quality.metrics == {"snr_db": pytest.approx(10.46, abs=0.1)}
    assert first.quality.reason is not None
    assert "is 10.5 dB, and rounding explains no less than 60.0 dB" in first.quality.reason
    assert first.artifact.sha256 == second.artifact.sha256
    assert first.quality.judges != second.quality.judges


@pytest.mark.parametrize("graph", [CANCELS, TOKENS], ids=["floats", "integers"])
def test_an_optimizer_that_rounds_otherwise_than_a_model_that_cancels_is_sound(
    graph: onnx.ModelProto, plugin_folder: Path
) -> None:
    found = verified(graph, MERGES, plugin_folder)
    assert found.quality.metrics is not None
    assert 10 < (found.quality.metrics["snr_db"] or 0) < rounding.SOUND_DB, "else the test shows nothing"
    assert (found.quality.fidelity, found.quality.reason) == ("drifted", None)


@pytest.mark.parametrize(("factor", "fidelity"), [("1.002", "broken"), ("1.0005", "drifted")])
def test_the_limit_is_sixty_decibels(factor: str, fidelity: str, plugin_folder: Path) -> None:
    assert verified(PRODUCT, WRONG.replace("1.3", factor), plugin_folder).quality.fidelity == fidelity


def test_without_a_second_run_of_the_reference_nothing_is_called_broken(
    plugin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ChildError("timeout", "no answer within 60 s")

    monkeypatch.setattr(verify, "_explained", fails)
    found = verified(PRODUCT, WRONG, plugin_folder).quality
    assert (found.fidelity, found.reason) == ("drifted", None)
    assert found.doubts == "whether rounding explains how far it drifted cannot be told: no answer within 60 s"


@pytest.mark.parametrize("kind", ["QuantizeLinear", "float16 weights", "Cast to float16"])
def test_models_below_float32_are_not_held_to_it(kind: str, tmp_path: Path) -> None:
    scale, half = np.float32(0.1), W.astype(np.float16)
    nodes = {
        "QuantizeLinear": [
            helper.make_node("QuantizeLinear", ["x", "scale"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "scale"], ["y"]),
        ],
        "float16 weights": [
            helper.make_node("Cast", ["half"], ["w"], to=FLOAT),
            helper.make_node("MatMul", ["x", "w"], ["y"]),
        ],
        "Cast to float16": [
            helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
            helper.make_node("Cast", ["h"], ["y"], to=FLOAT),
        ],
    }
    graph = model(nodes[kind], {"scale": np.array(scale), **({"half": half} if "weights" in kind else {})})
    (tmp_path / "net.onnx").write_bytes(graph.SerializeToString())
    with pytest.raises(rounding.ReducedError):
        rounding.write_changed(tmp_path / "net.onnx", tmp_path / "changed.onnx", np.random.default_rng(0))


def test_changed_files_keep_vectors_which_may_be_sizes(tmp_path: Path) -> None:
    graph = model(PRODUCT.graph.node, {"w": W, "scales": np.array([1, 2], np.float32), "shape": np.array([[1, 2]])})
    (tmp_path / "net.onnx").write_bytes(graph.SerializeToString())
    rounding.write_changed(tmp_path / "net.onnx", tmp_path / "changed.onnx", np.random.default_rng(0))
    stored = {each.name: numpy_helper.to_array(each) for each in onnx.load(tmp_path / "changed.onnx").graph.initializer}
    np.testing.assert_allclose(stored["w"], W, rtol=2 * rounding.CHANGE)
    assert (stored["w"] != W).mean() > 0.9
    assert stored["scales"].tolist() == [1, 2]
    assert stored["shape"].tolist() == [[1, 2]]


GENERATING = generating.generating(
    load_module(Path(__file__).parents[2] / "faults" / "models" / "toy_decoder" / "task.py").ToyDecoder(
        name="toy_decoder", path=Path(__file__).parents[2] / "faults" / "models" / "toy_decoder" / "task.py"
    ),
    {"prompt": 70, "new": 4},
)


@pytest.mark.parametrize(
    ("ratio_db", "by_rounding", "fidelity"),
    [(66.0, 120.0, "drifted"), (45.0, 120.0, "drifted"), (30.0, 120.0, "broken"), (30.0, 33.0, "drifted")],
)
def test_logits_of_generated_text_and_not_its_tokens(ratio_db: float, by_rounding: float, fidelity: str) -> None:
    """Which have a judgement of their own: after the first that differs, all others may."""
    found = rounding.judged(
        GENERATING,
        records.quality(fidelity="drifted"),
        {"logprobs": share(ratio_db), "tokens": 0.5},
        REFERENCE,
        lambda: {"logprobs": share(by_rounding)},
    )
    assert found.fidelity == fidelity


def test_runs_that_tell_what_rounding_explains() -> None:
    assert [rounding.num_runs(task) for task in (catalog.task("toy"), TASK, GENERATING)] == [4, 8, 2]
    for shape, number in (("batch", 4), 4), (("batch", "rows"), 8):
        outputs = (TensorSpec(name="y", dtype="float32", shape=shape),)
        kind = type("Shapes", (OwnTask,), {"outputs": outputs, "judges_other_shapes": True})
        assert rounding.num_runs(kind(name="shapes", path=Path("task.py"))) == number, "a number of rows is discrete"
    assert rounding.largest([{"y": 0.1, "z": 0.3}, {"y": 0.2}]) == {"y": 0.2, "z": 0.3}


NORM = model(
    [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("BatchNormalization", ["r", *"sbmv"], ["y", "mo", "vo"], "norm", training_mode=1),
    ],
    {"shape": np.array([-1, 4, 2]), **{name: np.full(4, 0.5, np.float32) for name in "sbmv"}},
)
FOLDS = """for attribute in model.graph.node[-1].attribute:
            attribute.i = 0
        del model.graph.node[-1].output[1:]"""
HINT = "BatchNormalization 'norm' is in training mode: its outputs depend on the other samples of a batch; export after"


def test_every_row_of_a_model_in_training_mode_says_so(plugin_folder: Path) -> None:
    found = verified(NORM, FOLDS, plugin_folder)
    assert found.quality.fidelity == "broken"
    assert found.quality.reason is not None
    assert HINT in found.quality.reason
    cell = Cell.from_path(f"{found.cell.task}/onnx/native/raw/onnxruntime/cpu/b1t1")
    plain = verify.from_name(cell, LIMITS)
    assert isinstance(plain, Verified)
    assert (plain.quality.fidelity, plain.quality.reason) == ("exact", None)
    assert HINT in (plain.quality.doubts or "")
    again = quality.hinted(plain.quality, catalog.task(cell.task).unsettled)  # type: ignore[attr-defined]
    assert again == plain.quality, "what is stored has them"
