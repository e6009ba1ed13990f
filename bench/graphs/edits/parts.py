"""A part of a model as a model of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from bench.api.errors import InputError
from bench.graphs.deferred import onnx
from bench.graphs.file.lazy import Stored
from bench.graphs.file.reads import is_constant
from bench.graphs.file.wiring import Wiring
from bench.graphs.shapes import inference
from bench.graphs.shapes.dims import Size
from bench.graphs.shapes.tensors import dynamic_inputs

LARGEST_BYTES = 2**31 - 1  # of a protobuf message
OLDEST_IR_VERSION = 4  # before, weights had to be inputs


class Cutter:
    """Makes models of parts of a model.

    Attributes:
        constants: names of weights and of values that nodes make of weights alone. These nodes belong to no part:
            each part that needs their values has copies of them.
        values: what inference tells of each value, by name.
    """

    def __init__(self, stored: Stored) -> None:
        self.wiring = Wiring(stored)
        self.constants = set(self.wiring.weights)
        for node in self.wiring.nodes:
            if is_constant(node, self.constants):
                self.constants |= set(filter(None, node.output))
        inputs = {name: shape for name, shape in dynamic_inputs(self.wiring.model).items() if shape is not None}
        self._dimensions: dict[bytes, str] = {}
        self.values = inference.infer(Stored(model=self.wiring.model, path=stored.path), inputs).values

    def part(self, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.ModelProto:
        """A model of the nodes between some values, and of the nodes and weights that make the constants they read.

        Args:
            inputs: names of the values that become inputs.
            outputs: names of the values that become outputs.

        Raises:
            InputError: the type of an input or output is not known.
        """
        needed = self.needed_for(outputs, inputs)
        chosen = [self.wiring.nodes[index] for index in sorted(needed)]
        read = {name for index in needed for name in self.wiring.reads[index]} | set(outputs)
        weights = {name: weight for name, weight in self.wiring.weights.items() if name in read and name not in inputs}
        graph = onnx.helper.make_graph(
            chosen,
            self.wiring.model.graph.name or "part",
            [self._value(name) for name in inputs],
            [self._value(name) for name in outputs],
        )
        for name, weight in weights.items():
            if isinstance(weight, onnx.SparseTensorProto):
                graph.sparse_initializer.append(weight)
                graph.sparse_initializer[-1].values.name = name
            else:
                graph.initializer.append(weight)
                graph.initializer[-1].name = name
        source = self.wiring.model
        model = onnx.helper.make_model(graph, opset_imports=source.opset_import)
        model.ir_version = max(source.ir_version, OLDEST_IR_VERSION)
        model.producer_name, model.producer_version = source.producer_name, source.producer_version
        return model

    def makes_constant(self, index: int) -> bool:
        """Whether all values that a node makes are constant."""
        return self.constants.issuperset(filter(None, self.wiring.nodes[index].output))

    def needed_for(self, names: Iterable[str], given: Collection[str] = ()) -> set[int]:
        """The nodes that lead to some values, by index.

        Args:
            given: values that need no node.
        """
        return set(self.wiring.leading_to([name for name in names if name not in given], given)[0])

    def _value(self, name: str) -> onnx.ValueInfoProto:
        value = self.values[name]
        declared = next((own.type for own in self.wiring.model.graph.value_info if own.name == name), None)
        proto: onnx.TypeProto | None = declared if value.proto is None else value.proto
        if value.proto is None and value.dtype:
            sizes = None if value.shape is None else [self._dimension(size) for size in value.shape]
            proto = onnx.helper.make_tensor_type_proto(value.dtype, sizes)
        if proto is None:
            raise InputError(
                f"nothing tells the type of {name!r}: an operator that is not known makes it; cut elsewhere"
            )
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
        InputError: `target` is the source, the model is not valid, or external data are missing.
    """
    if source.path is not None and target.exists() and target.samefile(source.path):
        raise InputError(f"{target} would be written over the model that it is made of; name another file")
    source.embed(model)
    target.parent.mkdir(parents=True, exist_ok=True)
    if model.ByteSize() > LARGEST_BYTES:
        onnx.save(model, target, save_as_external_data=True, location=f"{target.name}.data")
        return
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise InputError(f"it would be no valid model: {' '.join(str(error).split())}") from error
    onnx.save(model, target)
