"""float16: the tensors that are converted, those that stay float32, and that ONNX Runtime loads the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from bench.api.errors import RefusedError
from bench.plugins import catalog, steps
from support import variant_graphs as graphs

onnxruntime = pytest.importorskip("onnxruntime")

node = helper.make_node


def image_model() -> ModelProto:
    return graphs.model_of(
        [
            node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
            node("Relu", ["c"], ["r"]),
            node("GlobalAveragePool", ["r"], ["y"]),
        ],
        {"w": graphs.floats(4, 3, 3, 3), "b": graphs.floats(4)},
        inputs={"x": ["batch", 3, 8, 8]},
        outputs={"y": ["batch", 4, 1, 1]},
    )


def recurrent_model() -> ModelProto:
    """A Transpose takes the batch back to the front before the MatMul: what made ONNX Runtime crash."""
    return graphs.model_of(
        [
            node("Transpose", ["x"], ["steps"], perm=[1, 0, 2]),
            node("LSTM", ["steps", "w", "r"], ["states"], hidden_size=6),
            node("Squeeze", ["states", "axis"], ["h"]),
            node("Transpose", ["h"], ["back"], perm=[1, 0, 2]),
            node("MatMul", ["back", "dense"], ["product"]),
            node("Add", ["bias", "product"], ["y"]),
        ],
        {
            "w": graphs.floats(1, 24, 4),
            "r": graphs.floats(1, 24, 6),
            "axis": np.array([1]),
            "dense": graphs.floats(6, 5),
            "bias": graphs.floats(5),
        },
        inputs={"x": ["batch", 7, 4]},
        outputs={"y": ["batch", 7, 5]},
    )


def loads(model: ModelProto, folder: Path) -> bool:
    """Whether ONNX Runtime opens a model with all its optimizations, in a process that may crash."""
    import subprocess
    import sys

    (folder / "loads.onnx").write_bytes(model.SerializeToString())
    code = "import sys, onnxruntime; onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])"
    done = subprocess.run([sys.executable, "-c", code, str(folder / "loads.onnx")], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.parametrize(
    ("model", "num_halved"),
    [(image_model(), 2), (recurrent_model(), 4), (graphs.encoder(), 11), (graphs.encoder(computed_shapes=True), 11)],
    ids=["image", "recurrent", "encoder", "computed shapes"],
)
def test_weights_are_halved_and_inputs_and_outputs_are_not(model: ModelProto, num_halved: int, tmp_path: Path) -> None:
    made, _ = graphs.apply("fp16", model, tmp_path)
    assert [value.SerializeToString() for value in made.graph.input] == [
        value.SerializeToString() for value in model.graph.input
    ]
    assert {value.type.tensor_type.elem_type for value in made.graph.output} == {TensorProto.FLOAT}
    before, after = graphs.stored(model), graphs.stored(made)
    halved = [name for name, array in after.items() if array.dtype == np.float16 and array.ndim]
    assert len(halved) == num_halved
    assert not any(array.dtype == np.float32 and array.size > 1 for array in after.values())
    assert all(np.array_equal(after[name], before[name].astype(np.float16)) for name in halved)
    scale = max(float(np.abs(array).max()) for array in graphs.run(model, graphs.task_of(model).samples("test").inputs))
    assert 0 < graphs.largest_error(model, made) < 0.01 * scale
    assert loads(made, tmp_path)


def test_variant_says_that_it_is_lossy() -> None:
    assert catalog.variant("fp16").variant.lossy


def test_transpose_before_a_matmul_stays_float32_where_onnx_runtime_crashes(tmp_path: Path) -> None:
    made, info = graphs.apply("fp16", recurrent_model(), tmp_path)
    assert info == {"num_kept": 1}
    makers = {name: item for item in made.graph.node for name in item.output}
    back = next(item for item in made.graph.node if item.op_type == "Transpose" and item.output[0] != "steps")
    assert makers[back.input[0]].op_type == "Cast"


def test_mask_beyond_the_range_of_float16_is_clamped(tmp_path: Path) -> None:
    source = graphs.encoder()
    low = next(tensor for tensor in source.graph.initializer if tensor.name == "low")
    low.CopyFrom(graphs.numpy_helper.from_array(np.float32(-1e9), "low"))
    made, _ = graphs.apply("fp16", source, tmp_path)
    assert graphs.stored(made)["low"] == np.float16(-65504)
    assert graphs.largest_error(source, made) < 0.02


def test_operators_without_a_float16_form_stay_float32(tmp_path: Path) -> None:
    source = graphs.model_of(
        [
            node("Mul", ["x", "gain"], ["louder"]),
            node("DynamicQuantizeLinear", ["louder"], ["levels", "scale", "zero"]),
            node("DequantizeLinear", ["levels", "scale", "zero"], ["again"]),
            node("MatMul", ["again", "w"], ["y"]),
        ],
        {"gain": graphs.floats(6), "w": graphs.floats(6, 5)},
        inputs={"x": ["batch", 6]},
        outputs={"y": ["batch", 5]},
    )
    made, info = graphs.apply("fp16", source, tmp_path)
    assert info == {"num_kept": 2}
    assert {name for name, array in graphs.stored(made).items() if array.dtype == np.float16} == {"gain", "w"}
    assert loads(made, tmp_path)
    assert graphs.largest_error(source, made) < 0.05


def test_weight_that_several_float32_nodes_read_is_cast_once(tmp_path: Path) -> None:
    source = graphs.model_of(
        [
            node("Max", ["x", "least"], ["m"]),  # the converter leaves Max and Min in float32
            node("Mul", ["m", "least"], ["scaled"]),
            node("Min", ["scaled", "least"], ["n"]),
            node("Add", ["n", "m"], ["y"]),
        ],
        {"least": graphs.floats(6)},
        inputs={"x": ["batch", 6]},
        outputs={"y": ["batch", 6]},
    )
    made, _ = graphs.apply("fp16", source, tmp_path)
    assert graphs.stored(made)["least"].dtype == np.float16
    assert [item.op_type for item in made.graph.node if "least" in item.input].count("Cast") == 1
    assert loads(made, tmp_path)


def test_a_file_with_operators_that_onnx_does_not_know_is_converted(tmp_path: Path) -> None:
    """ONNX Runtime's optimizers write a LayerNormalization into files whose operator set has none."""
    source = graphs.encoder()
    source.opset_import[0].version = 16
    onnx.save(source, tmp_path / "source.onnx")
    steps.transform(catalog.variant("fp16"), graphs.task_of(source), tmp_path / "source.onnx", tmp_path / "target.onnx")
    made = onnx.load(tmp_path / "target.onnx")
    assert "LayerNormalization" in {item.op_type for item in made.graph.node}
    assert graphs.largest_error(source, made) < 0.01


def test_a_file_without_operators_of_onnx_itself_gets_a_version_of_them(tmp_path: Path) -> None:
    """As XGBoost's trees: the Casts that the converter adds need it."""
    source = graphs.model_of(
        [node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[0.5], scale=[2.0])],
        {},
        inputs={"x": ["batch", 6]},
        outputs={"y": ["batch", 6]},
        domains=["ai.onnx.ml"],
    )
    for entry in [entry for entry in source.opset_import if not entry.domain]:
        source.opset_import.remove(entry)
    made, _ = graphs.apply("fp16", source, tmp_path)
    assert {entry.domain: entry.version for entry in made.opset_import}[""] == 13
    assert graphs.largest_error(source, made) < 0.05


def counting_model() -> ModelProto:
    """Two thirds of a number of elements, counted in floats: 3 * 2,001 rounds to 6,004 in float16."""
    return graphs.model_of(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "one"], ["length"]),
            node("Cast", ["length"], ["as_float"], to=TensorProto.FLOAT),
            node("Mul", ["as_float", "share"], ["part"]),
            node("Floor", ["part"], ["whole"]),
            node("Cast", ["whole"], ["end"], to=TensorProto.INT64),
            node("Mul", ["x", "scale"], ["scaled"]),
            node("Slice", ["scaled", "zero", "end", "one"], ["y"]),
        ],
        {"one": np.array([1]), "zero": np.array([0]), "share": np.float32([2 / 3]), "scale": np.float32([1.5])},
        inputs={"x": ["batch", "length"]},
        outputs={"y": ["batch", "rest"]},
    )


def test_sizes_that_are_counted_in_floats_stay_exact(tmp_path: Path) -> None:
    source = counting_model()
    task = graphs.task_of(source, length=6003)
    made, info = graphs.apply("fp16", source, tmp_path, task)
    assert info["num_kept"] == 4
    kept = [item for item in made.graph.node if item.op_type in ("Mul", "Floor")]
    makers = {name: item for item in made.graph.node for name in item.output}
    floor = next(item for item in kept if item.op_type == "Floor")
    assert makers[floor.input[0]].op_type == "Mul", "no rounding to float16 in between"
    assert graphs.largest_error(source, made, task) < 0.01  # which asserts the same shapes, 4,002 long
    assert graphs.operators(made)["Cast"] == 4  # two of the graph's own, and those at its input and output


def test_loop_is_converted_with_its_body(tmp_path: Path) -> None:
    body = [graphs.constant("half", np.float32(0.5)), node("Mul", ["state", "half"], ["next"])]
    source = graphs.looped(body)
    made, _ = graphs.apply("fp16", source, tmp_path)
    (loop,) = (item for item in made.graph.node if item.op_type == "Loop")
    inner = loop.attribute[0].g
    assert inner.input[2].type.tensor_type.elem_type == TensorProto.FLOAT16
    assert inner.node[0].attribute[0].t.data_type == TensorProto.FLOAT16
    assert graphs.largest_error(source, made) < 1e-3


def test_loop_that_holds_what_must_stay_float32_is_refused(tmp_path: Path) -> None:
    source = graphs.looped([node("Max", ["state", "floor"], ["next"])], {"floor": np.float32(0)})
    with pytest.raises(RefusedError, match="holds Max, which would have to stay float32"):
        graphs.apply("fp16", source, tmp_path)
    assert not (tmp_path / "fp16.onnx").exists()


@pytest.mark.parametrize("opset", [17, 20, 23])
def test_every_opset(opset: int, tmp_path: Path) -> None:
    source = graphs.encoder(opset=opset)
    made, _ = graphs.apply("fp16", source, tmp_path)
    assert graphs.largest_error(source, made) < 0.02


def test_nodes_without_names_are_told_apart(tmp_path: Path) -> None:
    """The converter leaves nodes alone by name: a kept one without a name would take all of those with it."""
    source = counting_model()
    for item in source.graph.node:
        item.name = "same"
    made, info = graphs.apply("fp16", source, tmp_path, graphs.task_of(source, length=30))
    assert info["num_kept"] == 4
    makers = {name: item for item in made.graph.node for name in item.output}
    assert makers[next(item for item in made.graph.node if item.op_type == "Slice").input[0]].op_type == "Mul"
    assert graphs.stored(made)["scale"].dtype == np.float16


def test_what_onnx_knows_nothing_of_is_converted_too(tmp_path: Path) -> None:
    """Behind an operator of ONNX Runtime, casts around what stays float32 need a type that onnx does not infer."""
    source = graphs.model_of(
        [
            node("FastGelu", ["x"], ["hidden"], domain="com.microsoft"),
            node("Max", ["hidden", "floor"], ["kept"]),
            node("Add", ["kept", "hidden"], ["y"]),
        ],
        {"floor": np.float32([-0.1])},
        inputs={"x": ["batch", 4]},
        outputs={"y": ["batch", 4]},
        domains=("com.microsoft",),
    )
    made, _ = graphs.apply("fp16", source, tmp_path)
    assert loads(made, tmp_path)
    assert graphs.largest_error(source, made) < 0.01


def test_layout_of_one_processor_is_refused(tmp_path: Path) -> None:
    source = graphs.model_of(
        [
            node("ReorderInput", ["x"], ["blocked"], domain="com.microsoft.nchwc"),
            node("ReorderOutput", ["blocked"], ["y"], domain="com.microsoft.nchwc", channels=16),
        ],
        {},
        inputs={"x": ["batch", 16, 4, 4]},
        outputs={"y": ["batch", 16, 4, 4]},
        domains=("com.microsoft.nchwc",),
    )
    with pytest.raises(RefusedError, match="nchwc in float32 only"):
        graphs.apply("fp16", source, tmp_path)
