"""Whether an ONNX file still has the inputs and outputs that its task declares, or those of the file it came from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.api import UNKNOWN, Task, TensorSpec
from bench.api.arrays import STRING
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import fed_inputs, inferred_outputs
from bench.onnxfile.file.sizes import stated_size

Shape = tuple[int | None, ...]
"""Sizes by axis; None for a size that the file leaves open."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Port:
    """An input or output of a file.

    Attributes:
        dtype: NumPy's name of the element type.
        shapes: the shape that the file states and the shape that follows from the inputs; those that are known.
    """

    dtype: str
    shapes: tuple[Shape, ...]


def check_interface(path: Path, task: Task) -> None:
    """Compare names, dtypes and shapes of an exported ONNX file's inputs and outputs with the task's.

    A dimension without a size passes for any declared one; a fixed size where the task declares a dynamic dimension
    does not: the model would work for one batch size or image size only. Both the shapes that the file states and
    those that follow from its inputs are compared.

    Raises:
        ArtifactError: the interfaces differ; the message says where.
    """
    for kind, ports in _ports(path).items():
        specs = {spec.name: spec for spec in _specs(task, kind)}
        if sorted(ports) != sorted(specs):
            raise ArtifactError(f"the file's {kind}s are {', '.join(ports)}; the task's are {', '.join(specs)}")
        for name, spec in specs.items():
            port = ports[name]
            if port.dtype != spec.dtype:
                raise ArtifactError(f"{kind} {name} is {port.dtype} in the file; the task says {spec.dtype}")
            for shape in port.shapes:
                if len(shape) != len(spec.shape) or any(map(_differs, shape, spec.shape)):
                    raise ArtifactError(f"{kind} {name} is {_text(shape)} in the file; the task says {spec.shape}")


def check_kept(path: Path, source: Path, task: Task, *, may_fix: bool) -> None:
    """Ensure that an ONNX file has the inputs and outputs of the file that it was made from.

    Names and dtypes must be the same; ranks and sizes where both files know them. What a file states of an output may
    be wrong, so a shape is compared with what the source states and with what follows from the source's inputs.

    Args:
        source: the file that `path` was made from.
        may_fix: whether dimensions that the source leaves open may have a size. If not, only those may that the task
            declares to depend on the data or to have that size.

    Raises:
        ArtifactError: the interfaces differ; the message says where.
    """
    before, after = _ports(source), _ports(path)
    for kind, ports in after.items():
        if sorted(ports) != sorted(before[kind]):
            clause = f"those of the file before it are {', '.join(before[kind])}"
            raise ArtifactError(f"the file's {kind}s are {', '.join(ports)}; {clause}")
        declared = {spec.name: spec.shape for spec in _specs(task, kind)}
        for name, port in ports.items():
            old = before[kind][name]
            if port.dtype != old.dtype:
                raise ArtifactError(f"{kind} {name} is {port.dtype} in the file, and {old.dtype} in the file before it")
            for shape in port.shapes if old.shapes else ():
                allowed = declared.get(name, ()) if not may_fix else (UNKNOWN,) * len(shape)
                if not any(_keeps(shape, known, allowed) for known in old.shapes):
                    shapes = " or ".join(map(_text, dict.fromkeys(old.shapes)))
                    raise ArtifactError(
                        f"{kind} {name} is {_text(shape)} in the file, and {shapes} in the file before it"
                    )


def _specs(task: Task, kind: str) -> tuple[TensorSpec, ...]:
    return task.inputs if kind == "input" else task.outputs


def _ports(path: Path) -> Mapping[str, Mapping[str, Port]]:
    """The inputs and outputs of a file by name, under `input` and `output`."""
    model = onnx.load(path, load_external_data=False)
    inputs, stated = (
        fed_inputs(model.graph),
        [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in model.graph.output],
    )
    return {"input": _by_name(inputs), "output": _by_name(stated, inferred_outputs(model))}


def _by_name(*values: Iterable[onnx.ValueInfoProto]) -> dict[str, Port]:
    ports: dict[str, Port] = {}
    for value in (value for several in values for value in several):
        tensor = value.type.tensor_type
        known = ports.get(value.name, Port(dtype=_dtype(tensor.elem_type), shapes=()))
        if tensor.HasField("shape"):
            shape = tuple(map(stated_size, tensor.shape.dim))
            known = dataclasses.replace(known, shapes=(*known.shapes, shape))
        ports[value.name] = known
    return ports


def _dtype(number: int) -> str:
    return STRING if number == onnx.TensorProto.STRING else str(onnx.helper.tensor_dtype_to_np_dtype(number).name)


def _differs(size: int | None, dim: int | str) -> bool:
    return size is not None and dim not in (size, UNKNOWN)


def _keeps(shape: Shape, known: Shape, declared: tuple[int | str, ...]) -> bool:
    """Whether a shape has the rank and the sizes of a known shape, but for open sizes that the task declares."""
    if len(shape) != len(known):
        return False
    dims = declared if len(declared) == len(shape) else (None,) * len(shape)
    pairs = zip(shape, known, dims, strict=True)
    return all(size in (None, old) or (old is None and dim in (size, UNKNOWN)) for size, old, dim in pairs)


def _text(shape: Shape) -> str:
    return f"({', '.join('?' if size is None else str(size) for size in shape)})"
