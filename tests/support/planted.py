"""A small model of twelve products, at one of which a slowdown or an error is planted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = 256


def write(path: Path, change: str = "") -> Path:
    """Twelve products, each with a Tanh; at the fifth, `change` plants a costlier equal or an error."""
    generator, nodes, tensors = np.random.default_rng(0), [], []
    for at in range(12):
        weight = generator.standard_normal((SIZE, SIZE)).astype(np.float32) / 16
        tensors.append(numpy_helper.from_array(weight, f"w{at}"))
        source, product = ("x" if at == 0 else f"t{at - 1}"), f"p{at}"
        nodes.append(helper.make_node("MatMul", [source, f"w{at}"], [product], name=f"product_{at}"))
        if at == 5 and change == "slow":
            tensors[-1].CopyFrom(numpy_helper.from_array(np.concatenate([weight, *[weight * 0] * 11], 1), f"w{at}"))
            ends = {"start": 0, "end": SIZE, "axis": 1}
            tensors += [numpy_helper.from_array(np.array([value]), name) for name, value in ends.items()]
            nodes[-1].output[0] = "wide"
            nodes.append(helper.make_node("Slice", ["wide", *ends], [product], name="narrow"))
        if at == 5 and change == "wrong":
            tensors[-1].CopyFrom(numpy_helper.from_array(weight * np.float32(1.05), f"w{at}"))
        nodes.append(helper.make_node("Tanh", [product], ["y" if at == 11 else f"t{at}"], name=f"tanh_{at}"))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [128, SIZE]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path
