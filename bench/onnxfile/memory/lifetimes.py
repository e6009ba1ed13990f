"""When each activation of a model is made and last read, with the nodes in the order of the file.

An activation is a value that a node makes. Inputs belong to the caller and weights to the session; values that nodes
make of weights alone, such as a shape, can be computed once for all runs, and are left out. An output is needed to the
end. A node's inputs and outputs are alive together: no node is assumed to work in place. Operators in `_VIEWS` only
give the same bytes another shape, so their output shares the memory of their input; but an output of the model that is
a view of one of its inputs or weights has to be a copy.

A subgraph runs inside the step of its node. What it reads from around it is read at that step; its own activations are
planned by themselves and stand here as one buffer, the work space of that step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Set

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import stored_names
from bench.onnxfile.file.reads import is_constant, node_reads
from bench.onnxfile.memory.plan import Buffer, plan_memory

_Sizes = Mapping[str, int | None]
"""Bytes of tensors by name; None for a size that is not known."""
_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lifetimes:
    """The activations of a model.

    Attributes:
        buffers: activations of known size; a buffer has the name of the first tensor that it holds.
        unknown: names of activations of unknown size, which depends on data or on an unknown operator.
    """

    buffers: tuple[Buffer, ...]
    unknown: tuple[str, ...]


def activation_lifetimes(graph: onnx.GraphProto, sizes_bytes: _Sizes, *, share_views: bool = True) -> Lifetimes:
    """The steps at which the activations of a graph are alive.

    Args:
        graph: its nodes stand in an order in which they can run.
        sizes_bytes: size of each tensor by name; those inside a subgraph have the path of the subgraph before their
            name, as in `loop_1.body:x`. A size that is missing or None is unknown.
        share_views: whether the output of an operator in `_VIEWS` shares the memory of its input.
    """
    return _Scope(graph, sizes_bytes, share_views, "", frozenset()).lifetimes()


@dataclasses.dataclass(kw_only=True)
class _Living:
    """A buffer whose last step is not known yet; its size is None as long as no tensor in it has a known size."""

    name: str
    size_bytes: int | None
    first_step: int
    last_step: int


class _Scope:
    """The graph or a subgraph."""

    def __init__(
        self, graph: onnx.GraphProto, sizes_bytes: _Sizes, share_views: bool, path: str, constants: Set[str]
    ) -> None:
        self.graph = graph
        self.sizes_bytes = sizes_bytes
        self.share_views = share_views
        self.path = path
        stored = stored_names(graph)
        inputs = [value.name for value in graph.input if value.name not in stored]
        self.constants = set(constants | stored).difference(inputs)
        self.outputs = {value.name for value in graph.output}
        self.buffers: list[_Living] = []
        self.home: dict[str, _Living] = {}
        """The buffer that holds each tensor; tensors that the graph does not own are not in it."""
        self.unknown: list[str] = []
        if path:  # a body owns the values that it carries; the caller owns the inputs of the model
            for name in inputs:
                self._open(name, 0)

    def lifetimes(self) -> Lifetimes:
        for step, node in enumerate(self.graph.node):
            if is_constant(node, self.constants) and self.outputs.isdisjoint(node.output):
                self.constants |= set(node.output)
                continue
            self._use(node_reads(node), step)
            for name in filter(None, node.output):
                self._make(name, node, step)
            self._work_space(node, step)
        self._use(self.outputs, max(len(self.graph.node) - 1, 0))
        self.unknown += [self._called(buffer.name) for buffer in self.buffers if buffer.size_bytes is None]
        known = [Buffer(**vars(buffer)) for buffer in self.buffers if buffer.size_bytes is not None]
        return Lifetimes(buffers=tuple(known), unknown=tuple(self.unknown))

    def _make(self, name: str, node: onnx.NodeProto, step: int) -> None:
        view = self.share_views and node.op_type in _VIEWS and node.domain in ("", "ai.onnx")
        source = self.home.get(node.input[0]) if view and node.input else None
        if source is not None:
            self.home[name] = source
            if source.size_bytes is None:
                source.size_bytes = self.sizes_bytes.get(self._called(name))
        elif not view or name in self.outputs:
            self._open(name, step)

    def _open(self, name: str, step: int) -> None:
        size_bytes = self.sizes_bytes.get(self._called(name))
        self.home[name] = _Living(name=name, size_bytes=size_bytes, first_step=step, last_step=step)
        self.buffers.append(self.home[name])

    def _use(self, names: Iterable[str], step: int) -> None:
        for name in names:
            if name in self.home:
                self.home[name].last_step = step

    def _called(self, name: str) -> str:
        return f"{self.path}:{name}" if self.path else name

    def _work_space(self, node: onnx.NodeProto, step: int) -> None:
        """Reserve one buffer for the largest of a node's subgraphs: an If runs only one of its branches."""
        most = 0
        for attribute in node.attribute:
            for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                own = f"{node.name}.{attribute.name}"
                path = f"{self.path}/{own}" if self.path else own
                inner = _Scope(graph, self.sizes_bytes, self.share_views, path, self.constants).lifetimes()
                self.unknown += inner.unknown
                most = max(most, plan_memory(inner.buffers).arena_bytes)
        if most:
            name = f"{node.name or node.op_type} (work space)"
            self.buffers.append(_Living(name=name, size_bytes=most, first_step=step, last_step=step))
