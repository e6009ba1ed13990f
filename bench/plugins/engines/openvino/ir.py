"""OpenVINO's intermediate representation as one file: an uncompressed tar archive of `model.xml` and `model.bin`.

`tar xf` gives the two files that OpenVINO itself ships. Nothing is unpacked to open it here: the weights are mapped
into memory where they lie in the archive, as OpenVINO does with a `.bin` file.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.api import Task
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import np
from bench.plugins.engines.archive import pack
from bench.plugins.engines.openvino import quiet  # noqa: F401

XML, BIN = "model.xml", "model.bin"
_DECOMPRESSION = ("Convert", "Subtract", "Multiply", "Reshape")
"""Operators by which weights that are stored in few bits become floats."""
_QUANTIZED = ("i8", "u8", "i4", "u4")
"""Element types of weights that were quantized."""


def import_openvino() -> ModuleType:
    """The package `openvino` without its telemetry, which `quiet` keeps off."""
    import openvino

    return openvino


def save(model: Any, target: Path) -> None:
    """Write an `openvino.Model` to the archive `target`, its weights in the precision they have.

    The archive holds no times, owners or paths: the same model gives the same bytes.
    """
    openvino = import_openvino()
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        openvino.save_model(model, Path(folder, XML), compress_to_fp16=False)
        pack(Path(folder), (XML, BIN), target)


def read(core: Any, path: Path) -> tuple[Any, Any]:
    """The `openvino.Model` of an archive that `save` wrote.

    Returns:
        The model, and the memory that its weights lie in. The caller keeps that memory as long as the model, or a
        model compiled from it, is in use: OpenVINO reads it, but holds no reference to it (2026.4.1).

    Raises:
        ArtifactError: the file is no tar archive of the two files.
    """
    openvino = import_openvino()
    try:
        with tarfile.open(path, "r:") as archive:
            xml, weights = archive.getmember(XML), archive.getmember(BIN)
            text = archive.extractfile(xml)
            assert text is not None
            content = text.read()
    except (tarfile.TarError, KeyError) as error:
        raise ArtifactError(f"{path.name} is not a tar archive of {XML} and {BIN}: {error}") from error
    if weights.size == 0:
        return core.read_model(content, b""), None
    # A member of an archive begins at a multiple of 512 bytes, which is aligned enough for any weight.
    mapped = np.memmap(path, dtype=np.uint8, mode="c", offset=weights.offset_data, shape=(weights.size,))
    tensor = openvino.Tensor(mapped, shared_memory=True)
    return core.read_model(content, tensor), (mapped, tensor)


def weight_bytes(path: Path) -> int:
    """Bytes of the weights in an archive that `save` wrote, but for tables that rows are looked up in."""
    model, _weights = read(import_openvino().Core(), path)
    constants = [node for node in model.get_ops() if node.get_type_name() == "Constant"]
    return sum(node.get_byte_size() for node in constants if not _is_table(node.output(0)))


def _is_table(port: Any) -> bool:
    """Whether rows alone are looked up in a tensor, before or after it is decompressed."""
    readers = [(each.get_node(), each.get_index()) for each in port.get_target_inputs()]
    return bool(readers) and all(
        (node.get_type_name() == "Gather" and place == 0)
        or (node.get_type_name() in _DECOMPRESSION and _is_table(node.output(0)))
        for node, place in readers
    )


def name_ports(model: Any, task: Task, *, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Give a model's ports the task's names, and its inputs the shapes that the task declares.

    Args:
        inputs: the model's inputs in the task's order.
        outputs: the model's outputs in the task's order.

    Raises:
        ArtifactError: the model has more or fewer inputs or outputs than the task.
    """
    openvino = import_openvino()
    for kind, ports, specs in (("inputs", inputs, task.inputs), ("outputs", outputs, task.outputs)):
        if len(ports) != len(specs):
            raise ArtifactError(f"the model has {len(ports)} {kind}; the task has {len(specs)}")
        for port, spec in zip(ports, specs, strict=True):
            port.get_tensor().set_names({spec.name})
    for port, spec in zip(inputs, task.inputs, strict=True):
        shape = [dim if isinstance(dim, int) else -1 for dim in spec.shape]
        port.get_node().set_partial_shape(openvino.PartialShape(shape))
    model.validate_nodes_and_infer_types()
