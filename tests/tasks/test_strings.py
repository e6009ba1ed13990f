"""ONNX models of strings: what they are fed, how their outputs are compared, and which runtimes take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import Task, arrays
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, RefusedError
from bench.measure.limits import Limits
from bench.onnxfile.diff.same_outputs import check_same_outputs
from bench.pipeline import feeding, prepare, quality, verify
from bench.plugins import catalog, steps
from bench.tasks import adopt

pytest.importorskip("onnxruntime")
STRING = TensorProto.STRING
COLOURS = ("red", "blue", "green")


def save_labels(path: Path) -> Path:
    """A model that looks colours up: a number and a German name for each."""
    domain = {"domain": "ai.onnx.ml"}
    nodes = [
        helper.make_node("LabelEncoder", ["x"], ["n"], keys_strings=COLOURS, values_floats=[1.0, 2.0, 3.0], **domain),
        helper.make_node(
            "LabelEncoder", ["x"], ["name"], keys_strings=COLOURS, values_strings=["rot", "blau", "grün"], **domain
        ),
    ]
    value = helper.make_tensor_value_info
    outputs = [value("n", TensorProto.FLOAT, ["batch", 2]), value("name", STRING, ["batch", 2])]
    graph = helper.make_graph(nodes, "labels", [value("x", STRING, ["batch", 2])], outputs)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


@pytest.fixture
def task(plugin_folder: Path, tmp_path: Path) -> Task:
    return catalog.task(adopt.adopt(save_labels(tmp_path / "labels.onnx")).name)


def outputs_of(task: Task, runtime: str = "onnxruntime") -> dict[str, np.ndarray]:
    opened = catalog.runtime(runtime)
    with opened.open(task.weights_path, task=task, source="onnx", provider="cpu", threads=1) as session:
        return feeding.run_all(session.run, task, task.samples("test"), 3)


def test_samples_are_words_of_the_model(task: Task) -> None:
    assert [(spec.name, spec.dtype, spec.shape) for spec in (*task.inputs, *task.outputs)] == [
        ("x", "str", ("batch", 2)),
        ("n", "float32", ("batch", 2)),
        ("name", "str", ("batch", 2)),
    ]
    drawn = task.samples("test").inputs["x"]
    assert drawn.shape == (8, 2)
    assert set(drawn.ravel()) == set(COLOURS)
    assert drawn.dtype.kind == "U"


def test_outputs_of_strings_are_compared_exactly(task: Task) -> None:
    samples, made = task.samples("test"), outputs_of(task)
    assert set(made["name"].ravel()) == {"rot", "blau", "grün"}
    equal = quality.judge(task, samples, made, made)
    assert (equal.fidelity, equal.max_abs_error, equal.loss, equal.metrics) == ("exact", 0.0, 0.0, {"snr_db": 120.0})
    names = made["name"].copy()
    names[0, 0] = "rot" if names[0, 0] != "rot" else "blau"
    other = quality.judge(task, samples, {**made, "name": names}, made)
    assert (other.max_abs_error, other.relative_error) == (1.0, 1.0)
    assert other.fidelity == "drifted"
    assert other.metrics["snr_db"] == pytest.approx(10 * np.log10(16)), "one of 16 strings differs"
    assert other.loss == pytest.approx(1 / 16 / 2), "the mean over two outputs"
    wrong = quality.judge(task, samples, {**made, "name": made["n"]}, made)
    assert (wrong.fidelity, wrong.reason) == ("broken", "output name holds float32, not strings")


@pytest.mark.parametrize("runtime", ["onnxruntime", "onnxruntime_bytes"])
def test_runtimes_that_hold_strings(runtime: str, task: Task) -> None:
    cell = Cell.from_path(f"{task.name}/onnx/native/raw/{runtime}/cpu/b1t1")
    assert catalog.skip_reason(cell) is None
    made = outputs_of(task, runtime)
    assert made["n"].tolist() == [
        [float(COLOURS.index(word) + 1) for word in row] for row in task.samples("test").inputs["x"]
    ]


@pytest.mark.parametrize("runtime", ["onnxruntime_iobinding", "openvino"])
def test_runtimes_that_take_numbers_alone_are_skipped(runtime: str, task: Task) -> None:
    cell = Cell.from_path(f"{task.name}/onnx/native/raw/{runtime}/cpu/b1t1")
    if catalog.runtime(runtime).skip() is None:
        assert catalog.skip_reason(cell) == f"{runtime}: it takes numbers alone, and 'x' holds strings"


def test_strings_go_through_preparation_and_verification(task: Task) -> None:
    """By child processes: the words are stored, fed and compared without pickles."""
    cell = Cell.from_path(f"{task.name}/onnx/native/raw/onnxruntime/cpu/b1t1")
    limits = Limits.of(step_s=60, memory_bytes=2**31)
    path = prepare.inputs_of(task, limits)
    stored = arrays.load_arrays(path)["x"]
    np.testing.assert_array_equal(stored, task.samples("test").inputs["x"])
    reference = verify.reference_of(task, limits)
    assert (reference.cell, reference.quality.fidelity) == (cell, "exact")
    np.testing.assert_array_equal(arrays.load_arrays(reference.outputs)["name"], outputs_of(task)["name"])


def test_rewritten_models_with_other_strings_are_refused(task: Task) -> None:
    model = onnx.load(task.weights_path)
    check_same_outputs(model, model, task)
    other = onnx.load(task.weights_path)
    (values,) = (one for one in other.graph.node[1].attribute if one.name == "values_strings")
    values.strings[:] = [b"rouge", b"bleu", b"vert"]
    with pytest.raises(ArtifactError, match="output name of training sample 0 has other strings"):
        check_same_outputs(model, other, task)


def test_onnxsim_does_not_compare_strings(task: Task, tmp_path: Path) -> None:
    variant = catalog.variant("onnxsim").variant
    if variant.skip() is None:
        with pytest.raises(RefusedError, match="onnxsim compares outputs as numbers, and 'name' holds strings"):
            variant.apply(task.weights_path, tmp_path / "simplified.onnx", option="", task=task)


def test_float16_behind_an_operator_that_makes_float32_of_strings(plugin_folder: Path, tmp_path: Path) -> None:
    counts = helper.make_node(
        "TfIdfVectorizer",
        ["x"],
        ["counts"],
        mode="TF",
        min_gram_length=1,
        max_gram_length=1,
        max_skip_count=0,
        ngram_counts=[0],
        ngram_indexes=[0, 1, 2],
        pool_strings=COLOURS,
    )
    nodes = [counts, helper.make_node("MatMul", ["counts", "w"], ["y"])]
    value = helper.make_tensor_value_info
    weight = numpy_helper.from_array(np.arange(12, dtype="float32").reshape(3, 4), "w")
    sides = [value("x", STRING, ["batch", 5])], [value("y", TensorProto.FLOAT, ["batch", 4])]
    graph = helper.make_graph(nodes, "counts", *sides, [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "counts.onnx")
    task = catalog.task(adopt.adopt(tmp_path / "counts.onnx").name)
    steps.transform(catalog.variant("fp16"), task, task.weights_path, tmp_path / "half.onnx")
    runtime, feeds = catalog.runtime("onnxruntime"), task.samples("test").inputs
    made = []
    for path in (task.weights_path, tmp_path / "half.onnx"):
        with runtime.open(path, task=task, source="onnx", provider="cpu", threads=1) as session:
            made.append(session.run(feeds)[0])
    assert made[0].any()
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize(
    ("domain", "shape", "allowed"),
    [
        (None, (4, 2), [set(arrays.WORDS)] * 2),
        (("a", "bc"), (4, 2), [{"a", "bc"}] * 2),
        ((("a",), ("bc", "d")), (4, 2), [{"a"}, {"bc", "d"}]),
        (("a",), (), [{"a"}]),
    ],
)
def test_made_up_strings(domain: Any, shape: tuple[int, ...], allowed: list[set[str]]) -> None:
    made = arrays.generate(np.random.default_rng(0), arrays.STRING, shape, domain)
    assert (made.shape, made.dtype.kind, arrays.dtype_name(made)) == (shape, "U", "str")
    columns = made.reshape(-1, len(allowed)).T
    assert all(set(column) <= words for column, words in zip(columns, allowed, strict=True))


def test_pipeline_of_scikit_learn_over_words(plugin_folder: Path, tmp_path: Path) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import StringTensorType
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    table = np.array([["red", "small"], ["blue", "small"], ["red", "large"], ["blue", "large"]])
    model = make_pipeline(OneHotEncoder(handle_unknown="error"), LogisticRegression()).fit(
        table, ["no", "yes", "no", "yes"]
    )
    proto = skl2onnx.to_onnx(model, initial_types=[("words", StringTensorType([None, 2]))], options={"zipmap": False})
    (tmp_path / "words.onnx").write_bytes(proto.SerializeToString())
    task = catalog.task(adopt.adopt(tmp_path / "words.onnx").name)
    words = task.samples("test").inputs["words"]
    assert set(words[:, 0]) == {"red", "blue"}
    assert set(words[:, 1]) == {"small", "large"}
    made = outputs_of(task)
    label = next(spec.name for spec in task.outputs if spec.dtype == "str")
    assert made[label].tolist() == model.predict(words).tolist()
