"""The main graph of a model as nodes that read each other; constants count as weights, local functions are inlined."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from bench.api.errors import InputError
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.file.normalized import settle
from bench.onnxfile.file.reads import node_reads

Place = tuple[int, int]
"""The index of a node, and the position of one of its inputs or outputs."""
DTYPES = {"FLOAT": "f4", "INT": "i8", "STRING": "O", "FLOATS": "f4", "INTS": "i8", "STRINGS": "O"}
"""NumPy's name of the element type that a Constant makes of an attribute, by the attribute's type."""


class Wiring:
    """Which node makes each value, and which nodes read it.

    The values that the subgraphs of a node read from the graph around them count as further inputs of the node.

    Attributes:
        nodes: in the order of the file, without Constant nodes; each has a name of its own.
        reads: names of the values that each node reads, by position; an input that is left out is empty.
        made_by: the node and output that make each value, by name; inputs and weights are not in it.
        readers: the nodes and inputs that read each value, by name.
        inputs: of the model, by name, without weights that are listed as inputs.
        outputs: of the model, by name.
        weights: initializers and the tensors of Constant nodes, by name; large tensors are not loaded. The tensor of a
            Constant node has the name of the node's output here, but need not state it itself.
    """

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self.model = settle(stored.model)
        graph = self.model.graph
        self.weights: dict[str, onnx.TensorProto | onnx.SparseTensorProto] = {
            tensor.name: tensor for tensor in graph.initializer
        }
        self.weights |= {sparse.values.name: sparse for sparse in graph.sparse_initializer}
        self.inputs = {value.name: value for value in graph.input if value.name not in self.weights}
        self.outputs = {value.name: value for value in graph.output}
        self.nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            constant = constant_of(node)
            if constant is None:
                self.nodes.append(node)
            else:
                self.weights[node.output[0]] = constant
        self.reads = [_reads(node) for node in self.nodes]
        self.made_by: dict[str, Place] = {}
        self.readers: dict[str, list[Place]] = {}
        for index, (node, names) in enumerate(zip(self.nodes, self.reads, strict=True)):
            for position, name in enumerate(names):
                if name:
                    self.readers.setdefault(name, []).append((index, position))
            self.made_by |= {name: (index, position) for position, name in enumerate(node.output) if name}

    def leading_to(self, names: Iterable[str], ends: Collection[str] = ()) -> tuple[dict[int, None], dict[str, None]]:
        """Search the nodes that some values are made by, directly or through others.

        Args:
            names: of the values.
            ends: names of values behind which the search does not go on.

        Returns:
            The nodes, by index, and the names that they read, both in the order in which they were found.
        """
        nodes: dict[int, None] = {}
        reads: dict[str, None] = {}
        pending = list(names)
        while pending:
            index, _ = self.made_by.get(pending.pop(), (None, 0))
            if index is not None and index not in nodes:
                nodes[index] = None
                reads |= dict.fromkeys(filter(None, self.reads[index]))
                pending += [name for name in self.reads[index] if name not in ends]
        return nodes, reads


def _reads(node: onnx.NodeProto) -> list[str]:
    """The inputs of a node by position, and then what its subgraphs read besides."""
    names = list(node.input)
    own = set(names)
    return [*names, *(name for name in node_reads(node) if name not in own)]


def constant_of(node: onnx.NodeProto) -> onnx.TensorProto | onnx.SparseTensorProto | None:
    """The tensor that a Constant node holds, whichever attribute states it; None for any other node.

    Raises:
        InputError: the attribute states no value that a Constant can have.
    """
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.attribute) != 1 or not node.output:
        return None
    (attribute,) = node.attribute
    if attribute.HasField("t"):
        return attribute.t
    if attribute.HasField("sparse_tensor"):
        return attribute.sparse_tensor
    if attribute.ref_attr_name:
        return None
    # Checked here and not when the file is read: a call may have put the attribute of a function in its place.
    kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
    if attribute.name != f"value_{kind.lower()}" or kind not in DTYPES:
        names = ", ".join(f"value_{kind.lower()}" for kind in DTYPES)
        raise InputError(
            f"attribute {attribute.name!r} of node {node.name!r} (Constant) is of type {kind}; a Constant has a "
            f"tensor, or one of {names} of the type in its name"
        )
    value = onnx.helper.get_attribute_value(attribute)
    return onnx.numpy_helper.from_array(np.array(value, DTYPES[kind]), node.output[0])
