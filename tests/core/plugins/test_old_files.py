"""Variants of a file as old exporters wrote it: IR version 3, weights listed as inputs, axes as attributes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import RefusedError
from bench.onnxfile.edits.opset import opset_of
from bench.onnxfile.file.digest import fed_inputs
from bench.plugins import catalog
from support import variant_graphs as graphs

WEIGHTS = {
    "w": graphs.floats(64, 3, 3, 3) / 5,
    "scale": np.abs(graphs.floats(64)) + 1,
    "shift": graphs.floats(64),
    "mean": graphs.floats(64, seed=1) / 9,
    "variance": np.abs(graphs.floats(64, seed=2)) + 1,
    "gemm": graphs.floats(64, 64) / 16,
    "again": graphs.floats(64, 64) / 16,
    "bias": graphs.floats(64, seed=3),
}
FIXED = {"ort-all", "ort_transformers"}
"""Variants that write ONNX Runtime's own operators, or need an encoder."""
RAISED = {"int8_dynamic": 11, "int8_static": 13, "onnxscript": 18, "weight_only-int8": 13, "weight_only-int4": 21}
"""The operator set that a variant needs, by the beginning of its name."""


def old_model() -> onnx.ModelProto:
    """A picture through a convolution and equal products; the axes of Squeeze, Unsqueeze and so on are attributes."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
        helper.make_node("Clip", ["n"], ["r"], min=0.0, max=6.0),
        helper.make_node("ReduceMean", ["r"], ["m"], axes=[2, 3], keepdims=1),
        helper.make_node("Squeeze", ["m"], ["s"], axes=[2, 3]),
        helper.make_node("Gemm", ["s", "gemm", "bias"], ["g"], transB=1),
        helper.make_node("Dropout", ["g"], ["d"], ratio=0.5),
        helper.make_node("MatMul", ["d", "again"], ["p"]),
        helper.make_node("Unsqueeze", ["p"], ["u"], axes=[1]),
        helper.make_node("Slice", ["u"], ["cut"], axes=[2], starts=[0], ends=[32]),
        helper.make_node("Softmax", ["cut"], ["y"], axis=2),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 8, 8])]
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in WEIGHTS.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1, 32])]
    stored = [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in WEIGHTS.items()]
    graph = helper.make_graph(nodes, "old", inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=3)
    onnx.checker.check_model(model, full_check=True)
    return model


IMPORT_TORCH = {"onnxsim"}
NAMES = [
    pytest.param(name, marks=pytest.mark.framework("torch") if name in IMPORT_TORCH else ())
    for name, named in catalog.variants().items()
    if "onnx" in named.variant.formats and name not in FIXED
]


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_no_inputs_and_a_raised_operator_set_is_told(name: str, tmp_path: Path) -> None:
    if (reason := catalog.variant(name).variant.skip()) is not None:
        pytest.skip(reason)
    model, task = old_model(), graphs.task_of(_unlisted(old_model()))
    try:
        made, info = graphs.apply(name, model, tmp_path, task)
    except RefusedError as error:
        pytest.skip(str(error))
    assert [value.name for value in fed_inputs(made.graph)] == ["x"]
    assert graphs.largest_error(model, made, task) < (0.05 if catalog.variant(name).variant.lossy else 1e-5)
    version = opset_of(made)
    assert version >= next((least for start, least in RAISED.items() if name.startswith(start)), 9)
    told = f"operator set 9 of the file before it was raised to {version}"
    assert info.get("note") == (told if version > 9 else None)


def test_equal_weights_among_the_inputs_are_merged(tmp_path: Path) -> None:
    made, info = graphs.apply("dedup", old_model(), tmp_path, graphs.task_of(_unlisted(old_model())))
    assert info["num_removed"] == 1, "gemm and again are equal"
    assert "again" not in graphs.stored(made)


def _unlisted(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its one true input alone."""
    del model.graph.input[1:]
    return model
