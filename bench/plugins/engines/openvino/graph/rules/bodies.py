"""Translations of operations with bodies: conditions, loops, and iterations over the slices of a tensor."""

from __future__ import annotations

from typing import Any

from bench.graphs.deferred import np, onnx
from bench.plugins.engines.openvino.graph.onnx_graph import Graph, Port
from bench.plugins.engines.openvino.graph.operation import Operation, UntranslatableError, rule


@rule("If")
def if_(op: Operation) -> None:
    branches = {}
    for index, name in enumerate(("then_branch", "else_branch")):
        model, inner = op.node.get_function(index), op.graph.inner()
        parameters, results = model.get_parameters(), model.get_results()
        for given in op.node.get_input_descriptions(index):
            inner.bind(parameters[given.body_parameter_index].output(0), op.x(given.input_index))
        inner.add(model)
        made = {one.output_index: results[one.body_value_index] for one in op.node.get_output_descriptions(index)}
        ends = [inner.ended(made[at]) for at in range(op.node.get_output_size())]
        branches[name] = inner.proto(name, [], ends)
    op.result("If", op.x(), **branches)


@rule("TensorIterator", "Loop")
def loop(op: Operation) -> None:
    """A Loop: carried values are its inputs, slices are gathered by its number, all else is read from outside."""
    _Loop(op).write()


class _Loop:
    """A loop that is written.

    Attributes:
        carried: positions of the body's results that are values of the next iteration, in order.
        scanned: positions of those that are stacked over all iterations, in order, with their names outside.
    """

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.model = op.node.get_function()
        self.parameters, self.results = self.model.get_parameters(), self.model.get_results()
        self.inner: Graph = op.graph.inner()
        self.number, self.goes_on = (op.graph.unique(f"{op.node.get_friendly_name()}_{name}") for name in ("i", "on"))
        self.carried: list[int] = []
        self.scanned: list[tuple[int, str]] = []

    def write(self) -> None:
        op, node = self.op, self.op.node
        carried_inputs, typed = [], []
        trips, condition, stop = self._limits()
        for given in node.get_input_descriptions():
            port, outside = self.parameters[given.body_parameter_index].output(0), op.x(given.input_index)
            kind = type(given).__name__
            if kind == "SliceInputDescription":
                self._slice(given, port, outside)
            elif kind == "MergedInputDescription":
                self.inner.made(port)
                typed.append(self.inner.typed(port))
                carried_inputs.append(outside)
                self.carried.append(given.body_value_index)
            else:
                self.inner.bind(port, outside)
        self.inner.add(self.model)
        ends = [self._condition(stop), *(self.inner.ended(self.results[at]) for at in self.carried)]
        after = [self._output(made) for made in node.get_output_descriptions()]
        ends += [self.inner.ended(self.results[at]) for at, _ in self.scanned]
        values = onnx.helper.make_tensor_value_info
        first = [values(self.number, onnx.TensorProto.INT64, []), values(self.goes_on, onnx.TensorProto.BOOL, [])]
        body = self.inner.proto("body", [*first, *typed], ends)
        last = {
            made.body_value_index: op.output(made.output_index)
            for made in node.get_output_descriptions()
            if type(made).__name__ == "BodyOutputDescription" and made.body_value_index in self.carried
        }
        outputs = [last.get(at) or op.graph.unique(f"{node.get_friendly_name()}_state") for at in self.carried]
        op.ends("Loop", [trips, condition, *carried_inputs], [*outputs, *(name for _, name in self.scanned)], body=body)
        op.nodes += [each for nodes in after for each in nodes]

    def _limits(self) -> tuple[str, str, int | None]:
        """Names of the number of iterations and of the first condition, and the result that is the next condition."""
        op = self.op
        if op.kind == "TensorIterator":
            if op.node.get_num_iterations() < 0:
                raise UntranslatableError
            return op.constant(op.node.get_num_iterations()), "", None
        iteration, stop = op.node.get_special_body_ports()
        if iteration >= 0:
            port = self.parameters[iteration].output(0)
            sizes = self.inner.constant("sizes", np.asarray(list(port.get_shape()), "int64"))
            flat = self._inside("Reshape", [self.number, sizes])
            self._inside("Cast", [flat], self.inner.made(port), to=self.inner.dtype(port))
        try:
            trips = op.integers(0)[0]
            limit = op.constant(trips) if trips >= 0 else ""
        except UntranslatableError:
            limit = op.indices(0)
        return limit, op.x(1), stop

    def _inside(self, operator: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        """Add a node to the body and return the name of its output."""
        name = output or self.op.graph.unique(f"{self.op.node.get_friendly_name()}_{operator}")
        self.inner.nodes.append(onnx.helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def _slice(self, given: Any, port: Port, outside: str) -> None:
        if given.part_size != 1:
            raise UntranslatableError
        index = self._inside("Reshape", [self.number, self.op.constant([1])])
        if given.stride != 1:
            index = self._inside("Mul", [index, self.op.constant([given.stride])])
        if given.start != 0:
            index = self._inside("Add", [index, self.op.constant([given.start])])
        self._inside("Gather", [outside, index], self.inner.made(port), axis=given.axis)

    def _condition(self, stop: int | None) -> onnx.ValueInfoProto:
        if stop is not None and stop >= 0:
            return self.inner.ended(self.results[stop])
        name = self._inside("Identity", [self.goes_on])
        return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, [])

    def _output(self, made: Any) -> list[onnx.NodeProto]:
        """The nodes after the loop that make an output of the operation of the values of all iterations."""
        is_last = type(made).__name__ == "BodyOutputDescription"
        if is_last and made.body_value_index in self.carried:
            return []
        if (is_last and made.iteration != -1) or (not is_last and made.part_size != 1):
            raise UntranslatableError
        op = self.op
        stacked = op.graph.unique(f"{op.node.get_friendly_name()}_all")
        self.scanned.append((made.body_value_index, stacked))
        name = op.output(made.output_index)
        node = onnx.helper.make_node
        if is_last:
            return [node("Gather", [stacked, op.constant(-1)], [name], name=name, axis=0)]
        rank, nodes = len(op.out(made.output_index)), []
        axis = made.axis % rank
        if made.stride < 0:
            ends = [op.constant([number]) for number in (-1, -(2**31), 0, -1)]
            nodes.append(node("Slice", [stacked, *ends], [turned := op.graph.unique(f"{stacked}_turned")], name=turned))
            stacked = turned
        order = [*range(1, axis + 1), 0, *range(axis + 1, rank + 1)]
        moved = op.graph.unique(f"{stacked}_moved")
        nodes.append(node("Transpose", [stacked], [moved], name=moved, perm=order))
        sizes = op.constant(op.out(made.output_index))
        return [*nodes, node("Reshape", [moved, sizes], [name], name=name)]
