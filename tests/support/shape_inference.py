"""Shape inference of a model in memory, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from bench.graphs.file import settled
from bench.graphs.file.lazy import Stored
from bench.graphs.shapes import inference, tensors
from bench.graphs.shapes.tensors import TensorInfo, bind_inputs


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
    stored = Stored(model=settled.settle(model), path=None)
    bound, _ = bind_inputs(stored.model, shapes=shapes, dims=dims)
    return tensors.tensors(inference.infer(stored, bound))
