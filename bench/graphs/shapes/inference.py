"""Shape inference: one pass over a model's nodes that finds the shape of each value, in numbers or as expressions.

Nothing is run. Shapes follow from the inputs' shapes by the rules in `rules`, or by onnx's own inference for a single
operator if there is no rule. The elements of small values are computed, too, because shapes are computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bench.api.errors import InputError
from bench.graphs.deferred import onnx
from bench.graphs.file.lazy import Stored, external_tensors
from bench.graphs.file.wiring import constant_of
from bench.graphs.shapes import control_flow
from bench.graphs.shapes.dims import Dim, Size
from bench.graphs.shapes.node import Node, UnknownError, Value, mark_generated, stored_value
from bench.graphs.shapes.rules import RULES
from bench.graphs.shapes.steps import Body, Inferred, Scope, Step


def infer(stored: Stored, inputs: Mapping[str, Sequence[Size] | None]) -> Inferred:
    """Infer the values of a settled model.

    Args:
        inputs: shapes of the graph's inputs, by name; an input that has none here keeps the shape that the file states.

    Raises:
        InputError: the graph has a cycle or reads a value that no node makes, shapes do not fit, or external data are
            missing.
    """
    model = stored.model
    walk = Walk(stored)
    declared = {value.name: value.type for value in model.graph.input}
    for tensor in model.graph.initializer:
        declared.pop(tensor.name, None)
    given = {name: walk.declared(proto, inputs.get(name)) for name, proto in declared.items()}
    steps, values = walk.graph(model.graph, given, {}, "")
    return Inferred(model=model, steps=steps, values=values)


class Walk:
    """The state of one pass over a model."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self.versions = {entry.domain: entry.version for entry in stored.model.opset_import}
        if "ai.onnx" in self.versions:
            self.versions[""] = self.versions["ai.onnx"]
        self._imports = list(stored.model.opset_import)
        self._schemas: dict[tuple[str, str], Any] = {}
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
        values: dict[str, Value] = {**outer, **given}
        for tensor in graph.initializer[:]:  # a slice is read at once, an iterator item by item
            values[tensor.name] = self._stored(tensor)
        for sparse in graph.sparse_initializer:
            values[sparse.values.name] = self._stored(sparse)
        steps = [self._step(proto, values, path, graph) for proto in graph.node[:]]
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
            shape = self._sizes(tensor.shape.dim, unknown)
        return Value(tensor.elem_type, shape)

    def _step(self, proto: onnx.NodeProto, values: dict[str, Value], path: str, graph: onnx.GraphProto) -> Step:
        node = Node(proto, (), path=path)
        try:
            inputs = [values[name] if name else None for name in node.reads]
        except KeyError as error:
            raise InputError(_unmade(error.args[0], proto, graph)) from error
        domain, op_type = node.domain, node.op_type
        node.inputs, node.version = inputs, self.versions.get(domain, 0)
        bodies: Sequence[Body] = ()
        outputs: Sequence[Value | None]
        why = None
        try:
            if not domain and op_type in self._special:
                if op_type == "Constant":
                    tensor = constant_of(proto)
                    outputs = [] if tensor is None else [self._stored(tensor)]
                else:
                    outputs, bodies = control_flow.RULES[op_type](node, self, values)
            else:
                outputs, why = self._outputs(node)
        except UnknownError:
            outputs = []
        number = len(node.makes)
        made = list(outputs) if len(outputs) == number else [*outputs[:number], *([None] * (number - len(outputs)))]
        is_open = not all(isinstance(body.runs, int) for body in bodies) if bodies else False
        for index, (name, value) in enumerate(zip(node.makes, made, strict=True)):
            if name:
                if value is None or value.numbers is None:
                    if value is None or (value.shape is None and value.proto is None):
                        value = made[index] = self._stated(node, name, value, graph)
                    is_open = is_open or (value.numbers is None and value.proto is None)
                values[name] = value
        node.outputs = made
        if op_type == "ConstantOfShape" and made and made[0] is not None:
            mark_generated(node, made[0])
        return Step(node, bodies, is_open, why)

    def _outputs(self, node: Node) -> tuple[Sequence[Value | None], str | None]:
        """The outputs of a node by its rule, else as onnx infers them; and why inference failed, if it did."""
        rule = RULES.get((node.domain, node.op_type))
        if rule is not None:
            try:
                result = rule(node)
                return ([result] if isinstance(result, Value) else result), None
            except (UnknownError, KeyError, IndexError, TypeError):
                # The node breaks a rule of its operator that was taken for granted; onnx has the better message.
                pass
        return self._inferred_by_onnx(node)

    def _inferred_by_onnx(self, node: Node) -> tuple[Sequence[Value | None], str | None]:
        schema = self._schema(node)
        if schema is None or any(value is not None and not self._type(value) for value in node.inputs):
            return [], None
        types, data = {}, {}
        for name, value in zip(node.reads, node.inputs, strict=True):
            if value is None:
                continue
            types[name] = self._type(value)
            elements = value.elements
            if elements is not None and not any(isinstance(one, Dim) for one in elements.reshape(-1)):
                dtype = onnx.helper.tensor_dtype_to_np_dtype(value.dtype)
                data[name] = onnx.numpy_helper.from_array(elements.astype(dtype), name)
        try:
            found = onnx.shape_inference.infer_node_outputs(
                schema, node.proto, types, data, opset_imports=self._imports
            )
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError) as error:
            return [], " ".join(str(error).split())
        return [self._from_onnx(node, index, found.get(name)) for index, name in enumerate(node.makes)], None

    def _schema(self, node: Node) -> Any:
        key = (node.domain, node.op_type)
        if key not in self._schemas:
            try:
                self._schemas[key] = onnx.defs.get_schema(node.op_type, node.version, node.domain)
            except onnx.defs.SchemaError:
                self._schemas[key] = None
        return self._schemas[key]

    def _type(self, value: Value) -> Any:
        """The type of a value for onnx, with a name for each expression; None where nothing is known."""
        if value.proto is not None or not value.dtype:
            return value.proto
        sizes = None if value.shape is None else [self._name(size) for size in value.shape]
        return onnx.helper.make_tensor_type_proto(value.dtype, sizes)

    def _name(self, size: Size) -> int | str:
        if not isinstance(size, Dim):
            return size
        name = size.key.hex()
        self._named[name] = size
        return name

    def _from_onnx(self, node: Node, index: int, proto: Any) -> Value | None:
        if proto is None or proto.WhichOneof("value") is None:
            return None
        return self.declared(proto, unknown=lambda axis: node.fresh(index, axis))

    def _sizes(self, dims: Iterable[Any], otherwise: Callable[[int], Size | None]) -> Any:
        """Sizes of dimensions that onnx inferred; None if a size is not known and `otherwise` has none either."""
        sizes = []
        for axis, dim in enumerate(dims):
            named = self._named.get(dim.dim_param)
            size = int(dim.dim_value) if dim.HasField("dim_value") else named or otherwise(axis)
            if size is None:
                return None
            sizes.append(size)
        return sizes

    def _stated(self, node: Node, name: str, value: Value | None, graph: onnx.GraphProto) -> Value:
        """The type that a file states for an output that could not be inferred.

        The shape that it states for the output of a known operator holds only for the sizes at export.
        """
        declared = next((one.type for one in (*graph.value_info, *graph.output) if one.name == name), None)
        if declared is None:
            return value or Value(0, None)
        stated = self.declared(declared)
        known = (node.domain, node.op_type) in RULES or self._schema(node) is not None
        return Value(stated.dtype, None) if known else stated


def _unmade(name: str, proto: onnx.NodeProto, graph: onnx.GraphProto) -> str:
    """A message that says why a node reads a value that no node has made yet."""
    what = f"node {proto.name!r} ({proto.op_type}) reads {name!r}"
    makers = [other for other in graph.node if name in other.output]
    if not makers:
        return f"{what}, which nothing makes"
    made_of, pending = set(), [makers[0]]
    producers = {output: other for other in graph.node for output in other.output}
    while pending:
        maker = pending.pop()
        for source in maker.input:
            if source in proto.output:
                return f"its graph has a cycle: {what}, which depends on what that node makes"
            if source in producers and source not in made_of:
                made_of.add(source)
                pending.append(producers[source])
    return f"{what} before node {makers[0].name!r} makes it: nodes must be in order"
