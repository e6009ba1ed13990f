"""Dynamic dimensions fixed to the sizes of the task's samples, and the computation of shapes folded away."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Task, Variant
from bench.api.errors import RefusedError
from bench.graphs.edits.order import replace_nodes
from bench.graphs.edits.rewire import drop_unread
from bench.graphs.file.digest import all_graphs, all_nodes
from bench.graphs.file.lazy import Stored
from bench.graphs.file.settled import settle
from bench.graphs.shapes.dims import Dim
from bench.graphs.shapes.feeds import sample_shapes
from bench.graphs.shapes.inference import infer
from bench.graphs.shapes.node import Node, Value
from bench.graphs.shapes.steps import Inferred

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from bench.graphs.shapes.dims import Shape, Size


class StaticShapes(Variant):
    """The graph for inputs of the sizes that the samples have; only the batch stays dynamic.

    What follows from sizes is computed once, here. Where a Reshape needs nothing but the batch at run time, its shape
    becomes a constant with a -1. So cells of every batch run one file; what needs the batch itself, such as the zeros
    that an LSTM starts from, goes on asking for it.
    """

    requires = ("onnx",)
    freezes = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> dict[str, Any]:
        import onnx

        model = settle(onnx.load(source))
        shapes = sample_shapes(task)
        _refuse_other_sizes(model, shapes)
        num_before = sum(1 for _ in all_nodes(model))
        inferred = infer(Stored(model=model, path=None), shapes)
        _fold(inferred)
        for graph in all_graphs(model):
            graph.ClearField("value_info")
        batch = {size for shape in shapes.values() for size in shape if not isinstance(size, int)}
        for value in (*model.graph.input, *model.graph.output):
            _state(value, inferred.values[value.name].shape, batch)
        onnx.save(model, target)
        return {
            "inputs": {name: [str(size) for size in shape] for name, shape in shapes.items()},
            "num_folded": num_before - sum(1 for _ in all_nodes(model)),
        }


def _refuse_other_sizes(model: onnx.ModelProto, shapes: Mapping[str, Shape]) -> None:
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        for axis, (dim, size) in enumerate(zip(dims, shapes.get(value.name, ()), strict=False)):
            if dim.HasField("dim_value") and isinstance(size, int) and dim.dim_value != size:
                raise RefusedError(
                    f"axis {axis} of input {value.name} is fixed to {dim.dim_value} already; the samples have {size}"
                )


def _state(value: onnx.ValueInfoProto, shape: Shape | None, batch: Collection[Size]) -> None:
    """Write a shape into an input or output; what is neither a number nor the batch stays open."""
    if shape is None:
        return
    dims = value.type.tensor_type.shape.dim
    del dims[:]
    for size in shape:
        if isinstance(size, int):
            dims.add(dim_value=size)
        else:
            dims.add(dim_param=str(size) if size in batch else "")


def _fold(inferred: Inferred) -> None:
    """Put constants in the place of what is known, and drop what only led to it."""
    model, graph = inferred.model, inferred.model.graph
    outputs = {value.name for value in graph.output}
    stored = {tensor.name for tensor in graph.initializer}
    known = {name: array for name, value in inferred.values.items() if (array := _numbers(value)) is not None}
    kept = []
    for step in inferred.steps:
        node = step.node.proto
        is_known = all(name in known and name not in outputs for name in node.output if name)
        # A Constant is one already, and an Identity may be what ties two weights.
        if is_known and node.op_type not in ("Constant", "Identity"):
            continue
        wanted = _constant_shape(step.node)
        if wanted is not None and node.input[1] not in known:
            node.input[1] = _add(graph, f"{node.output[0]}/static_shape", wanted)
        kept.append(node)
    made = stored.union(*(node.output for node in kept))
    replace_nodes(model, kept)
    read = {name for node in all_nodes(model) for name in node.input}
    for name in sorted((read & known.keys()) - made):
        _add(graph, name, known[name])
    drop_unread(model)


def _numbers(value: Value) -> np.ndarray | None:
    """The elements of a value that is known in plain numbers."""
    import numpy as np
    import onnx

    if value.elements is None or any(isinstance(element, Dim) for element in value.elements.reshape(-1)):
        return None
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.dtype)
    return np.array(value.elements.tolist(), dtype).reshape(value.elements.shape)


def _constant_shape(node: Node) -> list[int] | None:
    """What a Reshape or Expand can be told instead of a shape that depends on the batch; None where nothing can."""
    if node.op_type not in ("Reshape", "Expand") or node.domain or node.outputs[0] is None:
        return None
    shape = node.outputs[0].shape
    if shape is None:
        return None
    if node.op_type == "Reshape":
        told: Sequence[Any] = [size if isinstance(size, int) else -1 for size in shape]
        return list(told) if told.count(-1) <= 1 and 0 not in told else None
    data = node.inputs[0].shape if node.inputs[0] is not None else None
    if data is None:
        return None
    # An Expand leaves an axis as it is where it is told 1.
    aligned = (None,) * (len(shape) - len(data)) + tuple(data)
    told = [1 if size == here else size for size, here in zip(shape, aligned, strict=True)]
    return [size for size in told if isinstance(size, int)] if all(isinstance(size, int) for size in told) else None


def _add(graph: onnx.GraphProto, name: str, values: Any) -> str:
    """Store a constant; whole numbers in a list are int64."""
    import numpy as np
    import onnx

    array = values if isinstance(values, np.ndarray) else np.array(values, np.int64)
    graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return name
