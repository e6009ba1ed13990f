"""Whether an ONNX file still has the inputs and outputs that its task declares."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.api import UNKNOWN, Task, TensorSpec
from bench.api.errors import ArtifactError
from bench.graphs.deferred import onnx
from bench.graphs.file import lazy
from bench.graphs.file.digest import fed_inputs, inferred_outputs


def check_interface(path: Path, task: Task, source: Path | None = None) -> None:
    """Compare names, dtypes and shapes of an ONNX file's inputs and outputs with the task's.

    A dimension without a size passes for any declared one; a fixed size where the task declares a dynamic dimension
    does not: the model would work for one batch size or image size only. Both the shapes that the file states and
    those that follow from its inputs are compared.

    Args:
        source: the ONNX file that this file was made from; sizes that it states may stay fixed. None to allow no
            fixed size for a dynamic dimension.

    Raises:
        ArtifactError: the interfaces differ; the message says where.
    """
    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    frozen = _fixed_sizes(source) if source else {}
    _check("input", task.inputs, fed_inputs(graph), frozen)
    _check("output", task.outputs, graph.output, frozen)
    _check("output", task.outputs, inferred_outputs(model), frozen)


def _fixed_sizes(path: Path) -> dict[tuple[str, int], int]:
    """Sizes that an ONNX file states of its inputs and outputs, by name and axis."""
    graph = lazy.read(path).model.graph
    return {
        (value.name, axis): dim.dim_value
        for value in (*graph.input, *graph.output)
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if dim.HasField("dim_value")
    }


def _check(kind: str, specs: tuple[TensorSpec, ...], values: Iterable[Any], frozen: dict[tuple[str, int], int]) -> None:
    types = {value.name: value.type.tensor_type for value in values}
    names = [spec.name for spec in specs]
    if sorted(types) != sorted(names):
        raise ArtifactError(f"the file's {kind}s are {', '.join(types)}; the task's are {', '.join(names)}")
    for spec in specs:
        found = types[spec.name]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(found.elem_type).name
        if dtype != spec.dtype:
            raise ArtifactError(f"{kind} {spec.name} is {dtype} in the file; the task says {spec.dtype}")
        if not found.HasField("shape"):
            continue
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in found.shape.dim]
        fits = len(sizes) == len(spec.shape) and all(
            size is None or dim in (size, UNKNOWN) or (isinstance(dim, str) and frozen.get((spec.name, axis)) == size)
            for axis, (size, dim) in enumerate(zip(sizes, spec.shape, strict=True))
        )
        if not fits:
            shape = ", ".join("?" if size is None else str(size) for size in sizes)
            raise ArtifactError(f"{kind} {spec.name} is ({shape}) in the file; the task says {spec.shape}")
