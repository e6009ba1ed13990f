"""Dynamic dimensions fixed to the sizes of the task's samples, and the computation of shapes folded away."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from bench.api import Info, Task, Variant
from bench.api.errors import RefusedError
from bench.api.names import Role
from bench.onnxfile.deferred import onnx
from bench.onnxfile.edits.fold import fold_known
from bench.onnxfile.file.digest import all_nodes
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.file.normalized import settle
from bench.onnxfile.file.sizes import stated_size
from bench.onnxfile.shapes.dims import Shape, Size
from bench.onnxfile.shapes.feeds import sample_shapes
from bench.onnxfile.shapes.inference import infer


class StaticShapes(Variant):
    """The graph for inputs of the sizes that the samples have; only the batch stays dynamic.

    Values that follow from sizes become constants. The shape of a Reshape that depends on nothing but the batch becomes
    a constant with a -1, so cells of every batch run one file; nodes that need the batch itself, such as those that
    make the zeros an LSTM starts from, stay.
    """

    portable = True
    requires = ("onnx", "onnx_ir")
    freezes = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        if task.role is Role.DECODING_STEP:
            raise RefusedError("a generation needs passes of every size; samples have one")
        model = settle(onnx.load(source))
        shapes = sample_shapes(task)
        _refuse_other_sizes(model, shapes)
        num_before = sum(1 for _ in all_nodes(model))
        inferred = infer(Stored(model=model, path=None), shapes)
        fold_known(inferred)
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
            if isinstance(size, int) and stated_size(dim) not in (None, size):
                raise RefusedError(
                    f"axis {axis} of input {value.name} is fixed to {dim.dim_value} already; the samples have {size}"
                )


def _state(value: onnx.ValueInfoProto, shape: Shape | None, batch: Collection[Size]) -> None:
    """Write a shape into an input or output; a size that is neither a number nor the batch stays without a name."""
    if shape is None:
        return
    dims = value.type.tensor_type.shape.dim
    del dims[:]
    for size in shape:
        if isinstance(size, int):
            dims.add(dim_value=size)
        else:
            dims.add(dim_param=str(size) if size in batch else "")
