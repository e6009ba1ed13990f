"""Shape inference: one pass over a model's nodes that computes the shape of each value, in numbers or as expressions.

The model is not run. The shapes of a node's outputs follow from those of its inputs by the rules in `rules`; onnx's own
inference infers operators without a rule. The elements of small tensors are computed, too, because a node such as a
Reshape reads shapes from them.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

from bench.api.errors import InputError
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file.crashes import hurts, is_crashing
from bench.onnxfile.file.digest import fed_inputs
from bench.onnxfile.file.dtypes import is_floating
from bench.onnxfile.file.lazy import Stored, external_tensors
from bench.onnxfile.file.sizes import stated_size
from bench.onnxfile.file.valid import unmade
from bench.onnxfile.file.valid_tensors import impossible
from bench.onnxfile.file.wiring import constant_of
from bench.onnxfile.shapes import control_flow
from bench.onnxfile.shapes.dims import Dim, Size
from bench.onnxfile.shapes.node import MAX_ELEMENTS, Node, ShapeError, UnknownError, Value, stored_value
from bench.onnxfile.shapes.rules import RULES
from bench.onnxfile.shapes.steps import Body, Inferred, Scope, Step


def infer(
    stored: Stored, inputs: Mapping[str, Sequence[Size] | None], numbers: Mapping[str, float] | None = None
) -> Inferred:
    """Infer the values of a settled model.

    Args:
        inputs: shapes of the graph's inputs, by name; an input that has none here keeps the shape that the file states.
        numbers: the one value of the elements of inputs, by name, where it is known.

    Raises:
        InputError: the graph has a cycle or reads a value that no node makes, shapes do not fit, or external data are
            missing.
    """
    model = stored.model
    walk = Walk(stored)
    input_values = {value.name: walk.declared(value.type, inputs.get(value.name)) for value in fed_inputs(model.graph)}
    for name, number in (numbers or {}).items():
        value = input_values.get(name)
        if value is not None and value.numbers is not None and math.prod(value.numbers) <= MAX_ELEMENTS:
            number = number if is_floating(value.dtype) else int(number)
            input_values[name] = Value(value.dtype, value.shape, np.full(value.numbers, number, object))
    steps, values = walk.graph(model.graph, input_values, {}, "")
    return Inferred(model=model, steps=steps, values=values)


class Walk:
    """The state of one pass over a model."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self._imports = list(stored.model.opset_import)
        self.versions = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in self._imports}
        self._named: dict[str, Dim] = {}
        self._special = {"Constant", *control_flow.RULES}
        self._is_whole = stored.is_whole or stored.path is None

    def graph(self, graph: onnx.GraphProto, given: Scope, outer: Scope, path: str) -> tuple[list[Step], Scope]:
        """Infer a graph.

        Args:
            given: values of its inputs, by name.
            outer: values of the graphs around it, by name.
            path: of a subgraph, such as `loop_1.body`; empty for the main graph.

        Returns:
            Its nodes in order, and all values that it has or can read, by name.
        """
        values = _inner(outer) if path else {}
        values.update(given)
        for tensor in graph.initializer[:]:  # a slice is read at once, an iterator item by item
            values[tensor.name] = self._stored(tensor)
        for sparse in graph.sparse_initializer:
            values[sparse.values.name] = self._stored(sparse)
        stated = functools.cache(lambda: _stated_types(graph))
        _check_sizes(given, path)
        steps = [self._step(proto, values, path, graph, stated) for proto in graph.node[:]]
        for value in graph.output:
            if value.name not in values:
                raise InputError(f"its output {value.name!r} is made by no node")
        return steps, values

    def _stored(self, tensor: onnx.TensorProto | onnx.SparseTensorProto) -> Value:
        """The value of a tensor that is stored in the file or beside it."""
        if not self._is_whole:
            for external in external_tensors(tensor):
                self.stored.data(external)  # raises where the data are missing, and reads nothing
        return stored_value(tensor, self.stored)

    def declared(
        self,
        proto: onnx.TypeProto,
        shape: Sequence[Size] | None = None,
        unknown: Callable[[int], Size | None] = lambda axis: None,
    ) -> Value:
        """A value of a type that a file states, or that onnx inferred.

        Args:
            shape: instead of the shape that the type states.
            unknown: the size of an axis that the type leaves open; None if the whole shape is unknown then.
        """
        kind = proto.WhichOneof("value")
        if kind not in ("tensor_type", "sparse_tensor_type"):
            return Value(0, None, proto=proto if kind else None)
        tensor = getattr(proto, kind)
        if shape is None and tensor.HasField("shape"):
            sizes = [
                self._named.get(dim.dim_param) or unknown(axis) if (size := stated_size(dim)) is None else size
                for axis, dim in enumerate(tensor.shape.dim)
            ]
            shape = None if None in sizes else sizes  # type: ignore[assignment]
        return Value(tensor.elem_type, shape)

    def _step(
        self,
        proto: onnx.NodeProto,
        values: MutableMapping[str, Value],
        path: str,
        graph: onnx.GraphProto,
        stated: Callable[[], Mapping[str, onnx.TypeProto]],
    ) -> Step:
        node = Node(proto, (), path=path)
        try:
            inputs = [values[name] if name else None for name in node.reads]
        except KeyError as error:
            raise InputError(unmade(error.args[0], node.what, proto, graph.node)) from error
        domain, op_type = node.domain, node.op_type
        node.inputs, node.version = inputs, self.versions.get(domain, 0)
        bodies: Sequence[Body] = ()
        outputs: Sequence[Value | None] = []
        why = None
        try:
            if domain or op_type not in self._special:
                outputs, why = self._outputs(node)
            elif op_type != "Constant":
                outputs, bodies = control_flow.RULES[op_type](node, self, values)
            elif (tensor := constant_of(proto)) is not None:
                outputs = [self._stored(tensor)]
        except UnknownError:
            outputs = []
        is_open = not all(isinstance(body.runs, int) for body in bodies) if bodies else False
        node_outputs: list[Value | None] = []
        for name, value in itertools.zip_longest(node.makes, outputs[: len(node.makes)]):
            if name:
                if value is None or value.numbers is None:
                    if value is None or (value.shape is None and value.proto is None):
                        value = self._stated(node, value, stated().get(name))
                    is_open = is_open or (value.numbers is None and value.proto is None)
                values[name] = value
            if value is not None and value.numbers is not None and (flaw := impossible(value.numbers)):
                raise ShapeError(f"{node.what} makes {name!r}, which {flaw}")
            node_outputs.append(value)
        node.outputs = node_outputs
        return Step(node, bodies, is_open, why)

    def _outputs(self, node: Node) -> tuple[Sequence[Value | None], str | None]:
        """The outputs of a node by its rule, else as onnx infers them, and onnx's message if its inference failed."""
        rule = RULES.get((node.domain, node.op_type))
        if rule is not None:
            try:
                result = rule(node)
                return ([result] if isinstance(result, Value) else result), None
            except (UnknownError, LookupError, TypeError, ValueError, ArithmeticError):
                # The node breaks a requirement of its operator that the rule does not check; onnx's message names it.
                pass
        return self._inferred_by_onnx(node)

    def _inferred_by_onnx(self, node: Node) -> tuple[Sequence[Value | None], str | None]:
        schema = _schema(node)
        values = {name: value for name, value in zip(node.reads, node.inputs, strict=True) if value is not None}
        types = {name: self._type(value) for name, value in values.items()}
        if schema is None or None in types.values():
            return [], None
        if hurts(node.proto) or (is_crashing(node.proto) and len(values) < sum(map(bool, node.proto.input))):
            return [], "onnx cannot infer it: its inference would crash"
        data = {}
        for name, value in values.items():
            elements = value.elements
            if elements is not None and not any(isinstance(element, Dim) for element in elements.reshape(-1)):
                dtype = onnx.helper.tensor_dtype_to_np_dtype(value.dtype)
                data[name] = onnx.numpy_helper.from_array(elements.astype(dtype), name)
        try:
            output_types = onnx.shape_inference.infer_node_outputs(
                schema, node.proto, types, data, opset_imports=self._imports
            )
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError) as error:
            return [], " ".join(str(error).split())
        except (TypeError, ValueError) as error:  # its binding takes no such number, or its message is no UTF-8
            return [], f"onnx cannot infer it: {' '.join(str(error).split())}"
        return [
            self.declared(output_types[name], unknown=functools.partial(node.fresh, index))
            if name in output_types
            else None
            for index, name in enumerate(node.makes)
        ], None

    def _type(self, value: Value) -> Any:
        """The type of a value for onnx, in which a name stands for each expression; None if the type is not known."""
        if value.proto is not None or not value.dtype:
            return value.proto
        self._named |= {size.key.hex(): size for size in value.shape or () if isinstance(size, Dim)}
        sizes = value.shape and [size.key.hex() if isinstance(size, Dim) else size for size in value.shape]
        return onnx.helper.make_tensor_type_proto(value.dtype, sizes)

    def _stated(self, node: Node, value: Value | None, declared: onnx.TypeProto | None) -> Value:
        """The type that a file states for an output that could not be inferred.

        For the output of a known operator only the element type is used: the stated shape holds for the sizes at export
        alone.
        """
        if declared is None:
            return value or Value(0, None)
        stated = self.declared(declared)
        known = (node.domain, node.op_type) in RULES or _schema(node) is not None
        return Value(stated.dtype, None) if known else stated


def _inner(outer: Scope) -> collections.ChainMap[str, Value]:
    """The values of a subgraph, still empty, before those of the graphs around it: copies would grow with both."""
    around = outer.maps if isinstance(outer, collections.ChainMap) else [outer]
    return collections.ChainMap({}, *around)


def _check_sizes(inputs: Scope, path: str) -> None:
    """Refuse inputs of a graph of which there can be none."""
    for name, value in inputs.items():
        if value.numbers is not None and (why := impossible(value.numbers)):
            raise ShapeError(f"the input {name!r} of {path or 'the graph'} {why}")


def _stated_types(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    """The types that a file states of the values that nodes of a graph make; the first statement of a name counts."""
    return {value.name: value.type for value in reversed((*graph.value_info, *graph.output))}


def _schema(node: Node) -> Any:
    """The schema of the node's operator; None if onnx does not know the operator."""
    try:
        return onnx.defs.get_schema(node.op_type, node.version, node.domain)
    except onnx.defs.SchemaError:
        return None
