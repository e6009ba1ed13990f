"""A part of a model as a model of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.api.errors import InputError
from bench.api.files import refuse_to_replace
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file.foreign import LARGEST_BYTES
from bench.onnxfile.file.lazy import Stored, external_tensors
from bench.onnxfile.file.reads import is_constant
from bench.onnxfile.file.wiring import Wiring
from bench.onnxfile.shapes import inference
from bench.onnxfile.shapes.dims import Size
from bench.onnxfile.shapes.tensors import dynamic_inputs

_ALIGNMENT = 4096  # of the weights in a file of their own, so that runtimes can map them
PIECE_BYTES = 1 << 22


class Cutter:
    """Makes models of parts of a model.

    Attributes:
        constants: names of weights and of values that nodes make of weights alone. These nodes belong to no part:
            each part that needs their values has copies of them.
        values: the inferred type and shape of each value, by name.
    """

    def __init__(self, stored: Stored) -> None:
        self.wiring = Wiring(stored)
        self.constants = set(self.wiring.weights)
        for node in self.wiring.nodes:
            if is_constant(node, self.constants):
                self.constants |= set(filter(None, node.output))
        self._dimensions: dict[bytes, str] = {}
        settled = Stored(model=self.wiring.model, path=stored.path)
        self.values = inference.infer(settled, dynamic_inputs(settled.model)).values

    def part(self, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.ModelProto:
        """A model of the nodes between some values, and of the nodes and weights that make the constants they read.

        Args:
            inputs: names of the values that become inputs.
            outputs: names of the values that become outputs.

        Raises:
            InputError: the type of an input or output is not known.
        """
        needed, reads = self.wiring.leading_to(outputs, inputs)
        chosen = [self.wiring.nodes[index] for index in sorted(needed)]
        read = {*reads, *outputs}.difference(inputs)
        source = self.wiring.model
        graph = onnx.helper.make_graph(
            chosen,
            source.graph.name or "part",
            [self._value(name) for name in inputs],
            [self._value(name) for name in outputs],
        )
        for name, weight in self.wiring.weights.items():
            if name not in read:
                continue
            if isinstance(weight, onnx.SparseTensorProto):
                graph.sparse_initializer.append(weight)
                graph.sparse_initializer[-1].values.name = name
            else:
                graph.initializer.append(weight)
                graph.initializer[-1].name = name
        return onnx.helper.make_model(
            graph,
            opset_imports=source.opset_import,
            ir_version=source.ir_version,
            producer_name=source.producer_name,
            producer_version=source.producer_version,
        )

    def _value(self, name: str) -> onnx.ValueInfoProto:
        value = self.values[name]
        if value.dtype:
            sizes = None if value.shape is None else [self._dimension(size) for size in value.shape]
            proto = onnx.helper.make_tensor_type_proto(value.dtype, sizes)
        else:
            declared = (own.type for own in self.wiring.model.graph.value_info if own.name == name)
            proto = value.proto or next(declared, None)
        if proto is None:
            raise InputError(f"nothing tells the type of {name!r}: an unknown operator makes it; cut elsewhere")
        return onnx.helper.make_value_info(name, proto)

    def _dimension(self, size: Size) -> int | str:
        """A size as a model states it; an expression that is no polynomial gets a name, the same wherever it stands."""
        if isinstance(size, int):
            return size
        if all(atom.is_symbol for monomial in size.terms for atom in monomial):
            return str(size)
        return self._dimensions.setdefault(size.key, f"size_{len(self._dimensions)}")


def save(model: onnx.ModelProto, source: Stored, target: Path) -> None:
    """Write a model made of another one, with its weights; they go into a second file if one file cannot hold them.

    Raises:
        InputError: `target` is the source or no regular file, the model is not valid, or external data are missing.
    """
    refuse_to_replace(target)
    if source.path is not None and target.exists() and target.samefile(source.path):
        raise InputError(f"{target} would be written over the model that it is made of; name another file")
    target.parent.mkdir(parents=True, exist_ok=True)
    if model.ByteSize() + source.data_bytes(model) > LARGEST_BYTES:
        _save_with_data(model, source, target)
        return
    source.embed(model)
    _check(model)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        file = Path(folder, target.name)
        onnx.save(model, file)
        file.replace(target)


def _save_with_data(model: onnx.ModelProto, source: Stored, target: Path) -> None:
    """Write a model that is too large for one file; files of the target's names are replaced by a valid model only.

    Raises:
        InputError: the second file would be written over data of the source or over what is no regular file, or the
            model is not valid.
    """
    data = target.with_name(f"{target.name}.data")
    refuse_to_replace(data)
    if data.exists() and data.resolve() in source.data_files():
        raise InputError(f"{data} holds weights of the model that it is made of; name another file")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        file = Path(folder, target.name)
        made_data = _write_data(model, source, file)
        onnx.save(model, file)
        _check(file)
        made_data.replace(data)
        file.replace(target)


def _check(model: onnx.ModelProto | Path) -> None:
    """Check a model, or the file of a model that is too large for the memory of one message.

    Raises:
        InputError: the model is not valid.
    """
    try:
        onnx.checker.check_model(str(model) if isinstance(model, Path) else model)
    except onnx.checker.ValidationError as error:
        graph = onnx.load(model, load_external_data=False).graph if isinstance(model, Path) else model.graph
        for value in (*graph.input, *graph.output):  # the checker does not say which
            if value.type.WhichOneof("value") == "tensor_type" and not value.type.tensor_type.HasField("shape"):
                what = f"the number of axes of {value.name!r}, which is an input or output, is not known"
                raise InputError(f"it would be no valid model: {what}") from error
        raise InputError(f"it would be no valid model: {' '.join(str(error).split())}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"it would be no valid model, and the reason is no UTF-8: {error.object!r}") from error


def _write_data(model: onnx.ModelProto, source: Stored, target: Path) -> Path:
    """Copy the tensors on disk into one file beside the target, piece by piece, and state their new places.

    Tensors that share their data go on sharing them, and pieces that are all zeros become holes.
    """
    path = target.with_name(f"{target.name}.data")
    starts: dict[tuple[str, ...], int] = {}
    with path.open("wb") as file:
        for tensor in external_tensors(model):
            content, place = source.data(tensor), tuple(sorted(str(entry) for entry in tensor.external_data))
            if place not in starts:
                starts[place] = start = -(-file.tell() // _ALIGNMENT) * _ALIGNMENT
                for at in range(0, len(content), PIECE_BYTES):
                    piece = content[at : at + PIECE_BYTES]
                    if np.frombuffer(piece, np.uint8).any():
                        file.seek(start + at)
                        file.write(piece)
                file.truncate(start + len(content))
                file.seek(start + len(content))
            del tensor.external_data[:]
            for key, value in (("location", path.name), ("offset", starts[place]), ("length", len(content))):
                tensor.external_data.add(key=key, value=str(value))
    return path
