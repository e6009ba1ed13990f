"""The last step of ONNX Runtime's quantizers: count the weights that became integers, and write the file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from bench.api.errors import RefusedError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.edits.order import replace_nodes
from bench.onnxfile.edits.rewire import shorten_names
from bench.onnxfile.weights.quantizable import num_floats, told_if_few, weight_sizes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Floats:
    """What a model holds in float32.

    Attributes:
        num_weights: number of weights that can be quantized, those of subgraphs included, see `weight_sizes`.
        num_in_weights: numbers in them.
        num_stored: numbers in all stored tensors of rank 2 and more.
    """

    num_weights: int
    num_in_weights: int
    num_stored: int


def floats_of(model: onnx.ModelProto) -> Floats:
    """Count what a model holds in float32."""
    sizes = weight_sizes(model)
    return Floats(num_weights=len(sizes), num_in_weights=sum(sizes), num_stored=num_floats(model))


def save_quantized(
    model: onnx.ModelProto, target: Path, *, before: Floats, kinds: str, ports: Mapping[str, str] | None = None
) -> dict[str, int | str]:
    """Write a quantized model with its nodes in order and with short names.

    Args:
        before: what the model held in float32 before it was quantized.
        kinds: the operators whose weights the quantizer takes, for the message.
        ports: the names that inputs and outputs get back, see `shorten_names`.

    Returns:
        `num_quantized` and `num_left`: how many weights are integers now, and how many are float32 still; a `note`
        where most of the numbers are.

    Raises:
        RefusedError: no weight was quantized.
    """
    now = floats_of(model)
    if now.num_weights == before.num_weights:
        raise RefusedError(
            f"none of the file's {before.num_weights} weights belong to {kinds}"
            if before.num_weights
            else "the file has no float32 weights that can be quantized"
        )
    # Its quantizers sort nodes by what they read themselves, without what the branches of an If read around them.
    replace_nodes(model, model.graph.node)
    shorten_names(model, ports=ports)
    onnx.save(model, target)
    counts = {"num_quantized": before.num_weights - now.num_weights, "num_left": now.num_weights}
    return {**counts, **told_if_few(before.num_in_weights - now.num_in_weights, before.num_stored)}
