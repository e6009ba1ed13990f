"""The last step of ONNX Runtime's quantizers: count the weights that became integers, and write the file."""

from __future__ import annotations

from pathlib import Path

from bench.api.errors import RefusedError
from bench.graphs.deferred import onnx
from bench.graphs.edits.order import replace_nodes
from bench.graphs.edits.rewire import shorten_names
from bench.graphs.weights.quantizable import find_weights


def save_quantized(model: onnx.ModelProto, target: Path, *, num_weights: int, kinds: str) -> dict[str, int]:
    """Write a quantized model with its nodes in order and with short names.

    Args:
        num_weights: float32 weights that the model had before.
        kinds: the operators whose weights the quantizer takes, for the message.

    Returns:
        `num_quantized` and `num_left`: how many weights are integers now, and how many are float32 still.

    Raises:
        RefusedError: no weight was quantized.
    """
    num_left = len(find_weights(model))
    if num_left == num_weights:
        raise RefusedError(f"none of the file's {num_weights} weights belong to {kinds}")
    # Its quantizers sort nodes by what they read themselves, without what the branches of an If read around them.
    replace_nodes(model, model.graph.node)
    shorten_names(model)
    onnx.save(model, target)
    return {"num_quantized": num_weights - num_left, "num_left": num_left}
