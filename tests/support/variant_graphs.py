"""Small ONNX graphs, and tasks for them, for the tests of variants."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.api import Task, TensorSpec
from bench.onnxfile.file.digest import all_nodes
from bench.plugins import catalog, steps
from bench.tasks.formats.onnx import OnnxTask

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
VOCABULARY, HEADS, HIDDEN, TOKENS = 16, 2, 8, 6
node = helper.make_node


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    weights: Mapping[str, np.ndarray],
    *,
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Mapping[str, Sequence[int | str]],
    opset: int = 18,
    types: Mapping[str, int] | None = None,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """A checked model; inputs and outputs are float32 where `types` says nothing else.

    Args:
        domains: of its operators, beside ONNX's own.
    """
    types = types or {}

    def values(shapes: Mapping[str, Sequence[int | str]]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, types.get(name, FLOAT), shape) for name, shape in shapes.items()]

    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", values(inputs), values(outputs), stored)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def constant(name: str, array: Any) -> onnx.NodeProto:
    return node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array)))


def encoder(
    *, heads: int = HEADS, opset: int = 18, computed_shapes: bool = False, key_width: int = HIDDEN
) -> onnx.ModelProto:
    """One layer of a transformer's encoder, as exporters write it.

    Args:
        computed_shapes: whether the graph computes the shapes of its Reshapes, instead of having them as constants.
        key_width: of the projections of queries and keys; the heads share it.
    """
    head_size, value_size = key_width // heads, HIDDEN // heads
    weights = {
        "table": floats(VOCABULARY, HIDDEN),
        "gain": floats(HIDDEN),
        "shift": floats(HIDDEN, seed=1),
        **{f"w{role}": floats(HIDDEN, key_width, seed=at) / 2 for at, role in enumerate("qk")},
        **{f"b{role}": floats(key_width, seed=at + 5) for at, role in enumerate("qk")},
        "wv": floats(HIDDEN, HIDDEN, seed=3) / 2,
        "bv": floats(HIDDEN, seed=8),
        "wo": floats(HIDDEN, HIDDEN, seed=4) / 2,
        "bo": floats(HIDDEN, seed=9),
        "scale": np.float32(np.sqrt(head_size)),
        "one": np.float32(1),
        "low": np.float32(-10000),
        "axis1": np.array([1]),
        "axis2": np.array([2]),
        "zero": np.array(0),
        "ones": np.array(1),
    }
    nodes = [
        node("Gather", ["table", "ids"], ["embedded"]),
        node("LayerNormalization", ["embedded", "gain", "shift"], ["x"], axis=-1, epsilon=1e-5),
    ]
    if computed_shapes:
        nodes.append(node("Shape", ["x"], ["shape_of_x"]))
        for name, axis in {"num_samples": "zero", "num_tokens": "ones"}.items():
            nodes.append(node("Gather", ["shape_of_x", axis], [f"{name}_alone"], axis=0))
            nodes.append(node("Unsqueeze", [f"{name}_alone", "axis0"], [name]))
        weights |= {"axis0": np.array([0]), "heads": np.array([heads]), "rest": np.array([-1])}
        for role, size in {"q": head_size, "k": head_size, "v": value_size}.items():
            weights[f"size_{role}"] = np.array([size])
            parts = ["num_samples", "num_tokens", "rest", f"size_{role}"]
            nodes.append(node("Concat", parts, [f"split_{role}"], axis=0))
        nodes.append(node("Concat", ["num_samples", "num_tokens", "rest"], ["joined"], axis=0))
    else:
        weights |= {f"split_{role}": np.array([0, 0, heads, head_size]) for role in "qk"}
        weights |= {"split_v": np.array([0, 0, heads, value_size]), "joined": np.array([0, 0, HIDDEN])}
    for role, order in {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}.items():
        nodes += [
            node("MatMul", ["x", f"w{role}"], [f"{role}_product"]),
            node("Add", [f"{role}_product", f"b{role}"], [f"{role}_biased"]),
            node("Reshape", [f"{role}_biased", f"split_{role}"], [f"{role}_split"]),
            node("Transpose", [f"{role}_split"], [role], perm=order),
        ]
    nodes += [
        node("MatMul", ["q", "k"], ["scores"]),
        node("Div", ["scores", "scale"], ["scaled"]),
        node("Unsqueeze", ["mask", "axis1"], ["mask_3"]),
        node("Unsqueeze", ["mask_3", "axis2"], ["mask_4"]),
        node("Cast", ["mask_4"], ["mask_float"], to=FLOAT),
        node("Sub", ["one", "mask_float"], ["masked"]),
        node("Mul", ["masked", "low"], ["mask_added"]),
        node("Add", ["scaled", "mask_added"], ["logits"]),
        node("Softmax", ["logits"], ["weights"], axis=-1),
        node("MatMul", ["weights", "v"], ["context"]),
        node("Transpose", ["context"], ["context_back"], perm=[0, 2, 1, 3]),
        node("Reshape", ["context_back", "joined"], ["context_joined"]),
        node("MatMul", ["context_joined", "wo"], ["o_product"]),
        node("Add", ["o_product", "bo"], ["o"]),
        node("Add", ["o", "x"], ["residual"]),
        node("LayerNormalization", ["residual", "gain", "shift"], ["y"], axis=-1, epsilon=1e-5),
    ]
    dims = ["batch", "tokens"]
    return model_of(
        nodes,
        weights,
        inputs={"ids": dims, "mask": dims},
        outputs={"y": [*dims, HIDDEN]},
        types={"ids": INT64, "mask": INT64},
        opset=opset,
    )


def looped(
    body: Sequence[onnx.NodeProto],
    weights: Mapping[str, np.ndarray] | None = None,
    before: Sequence[onnx.NodeProto] = (),
) -> onnx.ModelProto:
    """A Loop that goes three times through some nodes, from `state` (a float32 of shape (batch, 4)) to `next`.

    Args:
        before: nodes around the loop that its body can read.
    """
    state, following = (helper.make_tensor_value_info(name, FLOAT, ["batch", 4]) for name in ("state", "next"))
    inner = helper.make_graph(
        [*body, node("Identity", ["go"], ["go_on"])],
        "body",
        [
            helper.make_tensor_value_info("step", INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            state,
        ],
        [helper.make_tensor_value_info("go_on", TensorProto.BOOL, []), following],
    )
    return model_of(
        [*before, node("Loop", ["times", "true", "x"], ["y"], body=inner)],
        {"times": np.array(3), "true": np.array(True), **(weights or {})},
        inputs={"x": ["batch", 4]},
        outputs={"y": ["batch", 4]},
    )


def task_of(model: onnx.ModelProto, **dims: int) -> Task:
    """A task with a model's interface and generated samples.

    Args:
        dims: sizes of its dynamic dimensions other than the batch.
    """

    def specs(values: Sequence[onnx.ValueInfoProto]) -> tuple[TensorSpec, ...]:
        return tuple(
            TensorSpec(
                name=value.name,
                dtype=helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name,
                shape=tuple(dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim),
            )
            for value in values
        )

    class GraphTask(OnnxTask):
        inputs = specs(model.graph.input)
        outputs = specs(model.graph.output)
        sizes = dims or {"tokens": TOKENS}

    return GraphTask(name="graph", path=Path("graph/task.py"))


def apply(
    name: str, model: onnx.ModelProto, folder: Path, task: Task | None = None
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A model after a variant, checked by onnx and written to `<variant>.onnx`, and the facts of the variant."""
    onnx.save(model, folder / "source.onnx")
    named = catalog.variant(name)
    target = folder / f"{name}.onnx"
    info = steps.transform(named, task or task_of(model), folder / "source.onnx", target)
    made = onnx.load(target)
    onnx.checker.check_model(made, full_check=True)
    return made, info


def run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs on ONNX Runtime without optimizations of its own."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs: list[np.ndarray] = session.run([value.name for value in model.graph.output], dict(feeds))
    return outputs


def largest_error(model: onnx.ModelProto, other: onnx.ModelProto, task: Task | None = None) -> float:
    """The largest difference of any output at the batches 1, 2 and 5, whose shapes must be the same."""
    inputs = (task or task_of(model)).samples("test").inputs
    errors = [0.0]
    for batch in (1, 2, 5):
        feeds = {name: array[:batch] for name, array in inputs.items()}
        for expected, found in zip(run(model, feeds), run(other, feeds), strict=True):
            assert (expected.shape, expected.dtype) == (found.shape, found.dtype)
            errors.append(float(np.abs(expected - found).max()))
    return float(np.max(errors))


def operators(model: onnx.ModelProto) -> collections.Counter[str]:
    """How often each operator occurs, subgraphs included."""
    return collections.Counter(item.op_type for item in all_nodes(model))


def stored(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
