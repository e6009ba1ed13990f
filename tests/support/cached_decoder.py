"""One pass of a decoder with a cache of keys and values, whose sizes hang together: the mask covers past and new."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
WIDTH, HEADS, WORDS = 8, 2, 11
DEEP = WIDTH // HEADS


def decoder(past: str = "past", new: str = "new", total: str = "past + new") -> onnx.ModelProto:
    """A decoder of one layer.

    Args:
        past: the text that the file has for the tokens in the cache.
        new: for the tokens of the request.
        total: for the size of the mask.
    """
    generator = np.random.default_rng(0)
    stored = {
        "embed": generator.normal(size=(WORDS, WIDTH)).astype(np.float32),
        "split": np.array([0, 0, HEADS, DEEP]),
        "join": np.array([0, 0, WIDTH]),
        "one": np.float32(1),
        "low": np.float32(-1e4),
        "axes": np.array([1, 2]),
    }
    stored |= {f"w{part}": generator.normal(size=(WIDTH, WIDTH)).astype(np.float32) for part in "qkv"}
    nodes = [helper.make_node("Gather", ["embed", "ids"], ["x"], "embed")]
    for part in "qkv":
        nodes += [
            helper.make_node("MatMul", ["x", f"w{part}"], [f"{part}0"], f"project_{part}"),
            helper.make_node("Reshape", [f"{part}0", "split"], [f"{part}1"], f"heads_{part}"),
            helper.make_node("Transpose", [f"{part}1"], [f"{part}2"], f"turn_{part}", perm=[0, 2, 1, 3]),
        ]
    nodes += [
        helper.make_node("Concat", ["past_key", "k2"], ["present_key"], "keys", axis=2),
        helper.make_node("Concat", ["past_value", "v2"], ["present_value"], "values", axis=2),
        helper.make_node("Transpose", ["present_key"], ["kt"], "turn_keys", perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q2", "kt"], ["scores"], "scores"),
        helper.make_node("Cast", ["mask"], ["seen"], "cast", to=FLOAT),
        helper.make_node("Sub", ["one", "seen"], ["hidden"], "invert"),
        helper.make_node("Mul", ["hidden", "low"], ["minus"], "lower"),
        helper.make_node("Unsqueeze", ["minus", "axes"], ["bias"], "spread"),
        helper.make_node("Add", ["scores", "bias"], ["masked"], "add_mask"),
        helper.make_node("Softmax", ["masked"], ["weights"], "softmax"),
        helper.make_node("MatMul", ["weights", "present_value"], ["mixed"], "mix"),
        helper.make_node("Transpose", ["mixed"], ["turned"], "turn_back", perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["turned", "join"], ["y"], "join"),
    ]
    cache = ["batch", HEADS, past, DEEP]
    inputs = [
        helper.make_tensor_value_info("ids", INT64, ["batch", new]),
        helper.make_tensor_value_info("mask", INT64, ["batch", total]),
        helper.make_tensor_value_info("past_key", FLOAT, cache),
        helper.make_tensor_value_info("past_value", FLOAT, cache),
    ]
    present = ["batch", HEADS, total, DEEP]
    outputs = [
        helper.make_tensor_value_info("y", FLOAT, ["batch", new, WIDTH]),
        helper.make_tensor_value_info("present_key", FLOAT, present),
        helper.make_tensor_value_info("present_value", FLOAT, present),
    ]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def num_macs(past: int, new: int) -> int:
    """Multiplications of one pass: three projections, and the scores and the mix of each head."""
    return 3 * new * WIDTH * WIDTH + 2 * HEADS * new * (past + new) * DEEP
