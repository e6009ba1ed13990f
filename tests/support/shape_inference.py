"""Shape inference of a model in memory, for tests, and small models to infer the shapes of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.onnxfile.file import normalized
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.shapes import inference, tensors
from bench.onnxfile.shapes.tensors import TensorInfo, bind_inputs


def infer(
    model: onnx.ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
) -> dict[str, TensorInfo]:
    """Every tensor of a model and its subgraphs, by name; nothing is run.

    Args:
        shapes: of inputs, by name.
        dims: sizes of dynamic dimensions, by name. What neither tells is guessed, as `bench run --model` does.

    Raises:
        InputError: there is no such input or dimension, the sizes do not fit, or the graph is not a valid one.
    """
    stored = Stored(model=normalized.settle(model), path=None)
    bound, _ = bind_inputs(stored.model, shapes=shapes, dims=dims)
    return tensors.tensors(inference.infer(stored, bound))


def graph_model(
    nodes: list[onnx.NodeProto], inputs: dict[str, list[Any]], *outputs: str, **stored: Any
) -> onnx.ModelProto:
    """A model of nodes with float inputs of given shapes, float outputs of no stated shape, and stored tensors."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
