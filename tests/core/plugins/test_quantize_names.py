"""Static quantization of a file whose inputs and outputs have names that the quantizer gives its own values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper

from support import variant_graphs as graphs

pytest.importorskip("onnxruntime")


def quantized(source: str, target: str, folder: Path) -> ModelProto:
    nodes = [
        helper.make_node("MatMul", [source, "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], [target]),
    ]
    weights = {"w": graphs.floats(8, 8) / 3, "v": graphs.floats(8, 8, seed=1) / 3}
    model = graphs.model_of(nodes, weights, inputs={source: ["batch", 8]}, outputs={target: ["batch", 8]})
    made, info = graphs.apply("int8_static-minmax", model, folder)
    assert info["num_quantized"] == 1
    return made


@pytest.mark.parametrize(("source", "target"), [("x", "x_scale"), ("x_QuantizeLinear_Output", "x"), ("0v", "1")])
def test_static_takes_ports_with_the_names_that_the_quantizer_gives(source: str, target: str, tmp_path: Path) -> None:
    made, plain = quantized(source, target, tmp_path), quantized("given", "made", tmp_path)
    assert [value.name for value in (*made.graph.input, *made.graph.output)] == [source, target]
    x = graphs.floats(5, 8, seed=2)
    np.testing.assert_array_equal(graphs.run(made, {source: x})[0], graphs.run(plain, {"given": x})[0])
