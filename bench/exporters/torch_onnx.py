"""PyTorch's own ONNX exporter: torch.export, then a translation to ONNX."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.analysis.graph import all_graphs, all_nodes
from bench.analysis.interface import check_interface
from bench.api import Exporter, Task
from bench.errors import BenchError

if TYPE_CHECKING:
    import numpy as np
    import onnx

EXAMPLE_BATCH = 2  # from a batch of 1 the exporter bakes 1 into the Reshapes around an LSTM (torch 2.13.0)
EXAMPLE_SIZE = 64
"""Size of every other dynamic dimension when the task has no samples to take an example from."""


class TorchOnnx(Exporter):
    """ONNX by `torch.onnx.export(dynamo=True)`, with every dynamic dimension of the task kept dynamic."""

    requires = ("torch", "onnxscript", "onnx")
    extra = "torch"
    sources = ("torch",)

    def format(self, source: str) -> str:
        return "onnx"

    def export(self, task: Task, source: str, target: Path) -> dict[str, Any]:
        import onnx
        import torch

        model = task.build(source, task.weights_path)
        feeds = _example(task)
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                model,
                tuple(torch.from_numpy(feeds[spec.name]) for spec in task.inputs),
                target,
                input_names=[spec.name for spec in task.inputs],
                output_names=[spec.name for spec in task.outputs],
                dynamic_shapes=_dynamic_shapes(task),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        proto = onnx.load(target)
        _drop_provenance(proto)
        _drop_wrong_shapes(proto, task)
        onnx.save(proto, target)
        check_interface(target, task)
        return {"opset": next(opset.version for opset in proto.opset_import if not opset.domain)}


def _example(task: Task) -> dict[str, np.ndarray]:
    """Inputs to trace with: samples where the task has them, since a model may branch on what it is given."""
    import numpy as np

    try:
        inputs = task.samples("train").inputs
    except BenchError:
        sizes = {spec.shape[0]: EXAMPLE_BATCH for spec in task.inputs}
        return {
            spec.name: np.ones(
                [dim if isinstance(dim, int) else sizes.get(dim, EXAMPLE_SIZE) for dim in spec.shape], spec.dtype
            )
            for spec in task.inputs
        }
    rows = range(EXAMPLE_BATCH) if task.batched else 0  # without a batch, one sample is a whole request
    return {
        spec.name: np.take(inputs[spec.name], rows, axis=0, mode="wrap").astype(spec.dtype, copy=False)
        for spec in task.inputs
    }


def _dynamic_shapes(task: Task) -> tuple[dict[int, Any], ...]:
    """For each input the axes that are dynamic; the same name is the same dimension."""
    from torch.export import Dim

    names = {dim for spec in task.inputs for dim in spec.shape if isinstance(dim, str)}
    dims = {name: Dim(name) for name in names}
    return tuple(
        {axis: dims[dim] for axis, dim in enumerate(spec.shape) if isinstance(dim, str)} for spec in task.inputs
    )


def _drop_provenance(model: onnx.ModelProto) -> None:
    """Drop the notes on where each node came from: with paths of this machine, they change the file's size and hash."""
    for node in all_nodes(model):
        node.ClearField("metadata_props")
    for graph in all_graphs(model):
        graph.ClearField("metadata_props")
        for value in (*graph.input, *graph.output, *graph.initializer):
            value.ClearField("metadata_props")


def _drop_wrong_shapes(model: onnx.ModelProto, task: Task) -> None:
    """Drop what the exporter says of shapes inside the graph, and of sizes that are dynamic in the task's outputs.

    torch 2.13.0 states the example's sequence length as the fixed size of an LSTM's output, though the graph fixes
    nothing; a simplifier that believes it would. Whether an output really is dynamic, `check_interface` infers.
    """
    for graph in all_graphs(model):
        graph.ClearField("value_info")
    specs = {spec.name: spec for spec in task.outputs}
    for value in model.graph.output:
        for stated, dim in zip(value.type.tensor_type.shape.dim, specs[value.name].shape, strict=True):
            if isinstance(dim, str) and stated.HasField("dim_value"):
                stated.dim_param = dim
