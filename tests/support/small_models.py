"""Small ONNX models with every kind of weight, and tasks for them, for the tests of quantizers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.api import Samples, Task, TensorSpec

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


WEIGHTS = {
    "table": floats(50, 20),
    "w": floats(1, 48, 20),
    "r": floats(1, 48, 12),
    "wide": floats(12, 36) / 4,
    "tied": floats(36, 36) / 6,
    "gemm": floats(10, 36) / 6,
    "conv": floats(8, 3, 3, 3) / 5,
    "up": floats(8, 5, 3, 3) / 8,
}
AXES = {  # (channels, sum): 70 weights of the table's first row share a row, and so on
    "table": (0, 1),
    "w": (1, 2),
    "r": (1, 2),
    "wide": (1, 0),
    "tied": (1, 0),
    "gemm": (0, 1),
    "conv": (0, 1),
    "up": (1, 0),
}
OTHERS = {
    "lstm_bias": floats(1, 96),
    "bias": floats(10),
    "conv_bias": floats(8),
    "scale": floats(1, 1, 36),
    "axes": np.array([1]),
}


def make_model(opset: int = 15, *, initializers: Mapping[str, np.ndarray] | None = None) -> onnx.ModelProto:
    """Tokens through an embedding, an LSTM, tied products and a Gemm; an image through convolutions."""
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["embedded"]),
        helper.make_node("Transpose", ["embedded"], ["steps"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["steps", "w", "r", "lstm_bias"], ["states"], hidden_size=12),
        helper.make_node("Squeeze", ["states", "axes"], ["h"]),
        helper.make_node("MatMul", ["h", "wide"], ["h0"]),
        helper.make_node("MatMul", ["h0", "tied"], ["h1"]),
        helper.make_node("Tanh", ["h1"], ["h2"]),
        helper.make_node("MatMul", ["h2", "tied"], ["h3"]),
        helper.make_node("Mul", ["h3", "scale"], ["h4"]),
        helper.make_node("ReduceMean", ["h4"], ["h5"], axes=[0], keepdims=0),
        helper.make_node("Gemm", ["h5", "gemm", "bias"], ["text"], transB=1),
        helper.make_node("Conv", ["image", "conv", "conv_bias"], ["c0"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["c1"]),
        helper.make_node("ConvTranspose", ["c1", "up"], ["c2"]),
        helper.make_node("GlobalAveragePool", ["c2"], ["picture"]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info("tokens", INT64, ["N", 4]),
            helper.make_tensor_value_info("image", FLOAT, ["N", 3, 8, 8]),
        ],
        [
            helper.make_tensor_value_info("text", FLOAT, ["N", 10]),
            helper.make_tensor_value_info("picture", FLOAT, ["N", 5, 1, 1]),
        ],
        [numpy_helper.from_array(array, name) for name, array in (WEIGHTS | OTHERS | dict(initializers or {})).items()],
    )
    return make_valid(graph, opset)


def make_valid(graph: onnx.GraphProto, opset: int = 15) -> onnx.ModelProto:
    """A checked model of a graph."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


class SmallTask(Task):
    """The interface of `make_model`, with random samples."""

    sources = ("onnx",)
    inputs = (
        TensorSpec(name="tokens", dtype="int64", shape=("batch", 4)),
        TensorSpec(name="image", dtype="float32", shape=("batch", 3, 8, 8)),
    )
    outputs = (
        TensorSpec(name="text", dtype="float32", shape=("batch", 10)),
        TensorSpec(name="picture", dtype="float32", shape=("batch", 5, 1, 1)),
    )
    metric_name = "none"
    max_metric_loss = 0

    def build(self, source: str, weights: Path) -> Any:
        raise NotImplementedError

    def samples(self, split: str) -> Samples:
        assert split == "train", "what quantizes may not look at the test split"
        generator = np.random.default_rng(5)
        # Integers of another width, as a dataset may have them.
        tokens = generator.integers(0, 50, (6, 4), dtype=np.int32)
        return Samples(inputs={"tokens": tokens, "image": generator.random((6, 3, 8, 8), np.float32)}, targets=None)

    def loss(self, outputs: Any, targets: Any) -> float:
        raise NotImplementedError

    def metrics(self, outputs: Any, targets: Any) -> dict[str, float]:
        raise NotImplementedError


def make_task(kind: type[Task] = SmallTask) -> Task:
    return kind(name="small", path=Path("small/task.py"))


def run(model: onnx.ModelProto | Path, **feeds: np.ndarray) -> list[np.ndarray]:
    """Outputs on ONNX Runtime; without feeds, for two samples of `SmallTask`."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    content = str(model) if isinstance(model, Path) else model.SerializeToString()
    if not feeds:
        inputs = make_task().samples("train").inputs
        feeds = {"tokens": inputs["tokens"][:2].astype(np.int64), "image": inputs["image"][:2]}
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    outputs: list[np.ndarray] = session.run(None, feeds)
    return outputs


def drift(outputs: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """Largest error of any output over its largest magnitude."""
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(outputs, expected, strict=True))


def constants(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
