"""Match the nodes of two ONNX models. Names only decide between nodes that are equal in everything else.

The steps, from the surest to the least sure:

1. nodes that do the same computation with the same weights all the way from the inputs;
2. the same operator with the same attributes and weights, where no other node is like it;
3. the same computation all the way from the inputs or to the outputs, whatever the elements of the weights;
4. neighbours of matched nodes at the same place with the same operator, even if an attribute differs;
5. the same again where there are several of a kind, but as many in one model as in the other, in their order;
6. the same operator with the same attributes, if there are as many of them in one model as in the other.

After each step the match is carried on from nodes to their neighbours. An attribute that is left out is the same as its
default written out. Every step is linear in the size of the models.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Hashable, Iterable, Sequence

from bench.graphs.deferred import onnx
from bench.graphs.file.digest import Scope, attribute_digest, sha256, tensor_digest
from bench.graphs.file.lazy import Stored
from bench.graphs.file.text import tensor_type
from bench.graphs.file.wiring import Wiring

TELLING = 16
"""Least number of elements of a weight that identifies its node; a shape or a scale does not."""


def match(one: Side, other: Side) -> list[tuple[int, int]]:
    """Pairs of nodes, by index, in the order of the first model."""
    matching = _Matching(one, other)
    sides = (one, other)
    inputs = _named_alike(one.wiring.inputs, other.wiring.inputs)
    outputs = _named_alike(one.wiring.outputs, other.wiring.outputs)
    for side, names in zip(sides, inputs, strict=True):
        side.exact = side.from_inputs(side.contents, names)
    loose = [side.from_inputs(side.kinds, names) for side, names in zip(sides, inputs, strict=True)]
    behind = [side.to_outputs(names) for side, names in zip(sides, outputs, strict=True)]
    own = [side.own_weights() for side in sides]
    both = [_together(*pair) for pair in zip(loose, behind, strict=True)]
    matching.pair(*[_together(side.exact, keys) for side, keys in zip(sides, behind, strict=True)])
    matching.pair(one.exact, other.exact)  # what does the same is the same, whoever reads it
    for most in (1, None):
        for keys in (own, both, loose, behind):
            matching.pair(*keys, only_if_even=True, most=most)
            matching.spread(exactly=True, most=most)
        matching.spread(exactly=False, most=most)
    matching.pair(one.local, other.local, only_if_even=True)
    matching.spread(exactly=False, most=None)
    return [(index, found) for index, found in enumerate(matching.partner[0]) if found is not None]


def _together(*columns: Sequence[Hashable]) -> list[Hashable]:
    return list(zip(*columns, strict=True))


def _named_alike(one: Iterable[str], other: Iterable[str]) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Keys of the inputs or outputs of two models: equal for equal names, and by position for the other names."""
    one, other = list(one), list(other)
    common = set(one) & set(other)
    keys: list[dict[str, bytes]] = []
    for names in (one, other):
        rest = [name for name in names if name not in common]
        keys.append({name: b"name " + name.encode() for name in common})
        keys[-1] |= {name: b"number %d" % position for position, name in enumerate(rest)}
    return keys[0], keys[1]


class Side:
    """One of the models, with the keys that its nodes are matched by.

    Attributes:
        local: hash of each node by itself: its operator, attributes and number of outputs.
        kinds: type and shape of each weight, by name.
        contents: hash of type, shape and elements of each weight, by name.
        exact: hash of each node with all nodes and weights that lead to it.
    """

    exact: list[bytes]

    def __init__(self, stored: Stored) -> None:
        self.wiring = Wiring(stored)
        for node in self.wiring.nodes:
            stored.embed(node)  # the tensors of its attributes
            _write_out_defaults(node, self.wiring.model)
        self.local = [self._local(index) for index in range(len(self.wiring.nodes))]
        self.kinds = {name: tensor_type(tensor).encode() for name, tensor in self.wiring.weights.items()}
        self.contents = {name: self._content(name) for name in self.wiring.weights}

    def _local(self, index: int) -> bytes:
        node = self.wiring.nodes[index]
        scope = Scope()
        for position, name in enumerate(self.wiring.reads[index]):
            scope.define(name, b"slot %d" % position)
        attributes = sorted(attribute_digest(attribute, scope) for attribute in node.attribute)
        domain = "" if node.domain == "ai.onnx" else node.domain
        return sha256(domain.encode(), node.op_type.encode(), b"%d" % len(node.output), *attributes)

    def _content(self, name: str) -> bytes:
        weight = type(self.wiring.weights[name])()
        weight.CopyFrom(self.wiring.weights[name])
        self.wiring.stored.embed(weight)  # a copy: only one large weight is in memory at a time
        parts = [weight.values, weight.indices] if weight.DESCRIPTOR.name == "SparseTensorProto" else [weight]
        return sha256(self.kinds[name], *[tensor_digest(part) for part in parts])

    def from_inputs(self, weights: dict[str, bytes], inputs: dict[str, bytes]) -> list[bytes]:
        """For each node, a hash of the node and of everything that leads to it."""
        values = {**inputs, **weights}
        keys = []
        for index, node in enumerate(self.wiring.nodes):
            keys.append(sha256(self.local[index], *[values.get(name, b"") for name in self.wiring.reads[index]]))
            values |= {name: sha256(keys[-1], b"%d" % position) for position, name in enumerate(node.output) if name}
        return keys

    def to_outputs(self, outputs: dict[str, bytes]) -> list[bytes]:
        """For each node, a hash of the node and of everything that its outputs lead to."""
        keys = [b""] * len(self.wiring.nodes)
        for index in reversed(range(len(keys))):
            uses = []
            for name in self.wiring.nodes[index].output:
                readers = sorted(sha256(keys[other], b"%d" % slot) for other, slot in self.wiring.readers.get(name, ()))
                uses.append(sha256(outputs.get(name, b""), *readers))
            weights = [self.kinds.get(name, b"") for name in self.wiring.reads[index]]
            keys[index] = sha256(self.local[index], *weights, *uses)
        return keys

    def own_weights(self) -> list[Hashable]:
        """A key of each node and its weights; it is unique for a node with small weights or none."""
        keys: list[Hashable] = []
        for index, names in enumerate(self.wiring.reads):
            weights = [name for name in names if name in self.contents]
            telling = any(math.prod(self.wiring.weights[name].dims) >= TELLING for name in weights)
            own = tuple(self.contents[name] for name in weights)
            keys.append((self.local[index], own) if telling else (id(self), index))
        return keys


def _write_out_defaults(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Set the attributes that are left out and have a default, because some exporters write them and others do not."""
    versions = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain or "ai.onnx", 1), node.domain)
    except onnx.defs.SchemaError:
        return
    given = {attribute.name for attribute in node.attribute}
    for name, declared in schema.attributes.items():
        if name not in given and declared.default_value.name:
            node.attribute.append(declared.default_value)


class _Matching:
    """The pairs of nodes that have been matched so far."""

    def __init__(self, one: Side, other: Side) -> None:
        self.sides = (one, other)
        self.partner: tuple[list[int | None], list[int | None]] = tuple(  # type: ignore[assignment]
            [None] * len(side.wiring.nodes) for side in self.sides
        )

    def pair(
        self,
        one: Sequence[Hashable],
        other: Sequence[Hashable],
        *,
        only_if_even: bool = False,
        most: int | None = None,
    ) -> None:
        """Match nodes with equal keys that are left, in their order.

        Args:
            only_if_even: skip a key that more unmatched nodes have in one model than in the other.
            most: skip a key that more nodes than this have.
        """
        groups: dict[Hashable, tuple[list[int], list[int]]] = {}
        for which, keys in enumerate((one, other)):
            for index, key in enumerate(keys):
                if self.partner[which][index] is None:
                    groups.setdefault(key, ([], []))[which].append(index)
        for left, right in groups.values():
            if (not only_if_even or len(left) == len(right)) and (most is None or len(left) <= most):
                for pair in self._in_order(left, right):
                    self._join(*pair)

    def _in_order(self, left: Sequence[int], right: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs of nodes that are alike: those that share a name, then the others as they come."""
        if len(left) == len(right) == 1:
            return [(left[0], right[0])]
        names = [
            [side.wiring.nodes[index].name for index in part]
            for side, part in zip(self.sides, (left, right), strict=True)
        ]
        by_name = dict(zip(names[1], right, strict=True))
        pairs = [(index, by_name[name]) for name, index in zip(names[0], left, strict=True) if name in by_name]
        taken = [{pair[which] for pair in pairs} for which in (0, 1)]
        rest = [[index for index in part if index not in done] for part, done in zip((left, right), taken, strict=True)]
        return pairs + list(zip(*rest, strict=False))

    def _join(self, one: int, other: int) -> None:
        self.partner[0][one], self.partner[1][other] = other, one

    def spread(self, *, exactly: bool, most: int | None) -> None:
        """Match neighbours of matched nodes that are at the same place and have the same operator.

        Args:
            exactly: only if they have the same attributes, too.
            most: skip readers of a matched node if more than this number are alike.
        """
        pending = [(index, found) for index, found in enumerate(self.partner[0]) if found is not None]
        limit: int | None
        doubtful: collections.deque[tuple[int, int]] = collections.deque()
        while pending or doubtful:
            if pending:
                pair, limit = pending.pop(), 1
                if most is None:
                    doubtful.append(pair)
            else:  # nothing is left that is beyond doubt
                pair, limit = doubtful.popleft(), most
            for one, other in self._candidates(*pair, exactly, limit):
                if self.partner[0][one] is None and self.partner[1][other] is None:
                    self._join(one, other)
                    pending.append((one, other))

    def _candidates(self, one: int, other: int, exactly: bool, most: int | None) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        wirings = [side.wiring for side in self.sides]
        nodes = [wirings[0].nodes[one], wirings[1].nodes[other]]
        for names in zip(wirings[0].reads[one], wirings[1].reads[other], strict=False):
            makers = [wiring.made_by.get(name) for wiring, name in zip(wirings, names, strict=True)]
            if makers[0] and makers[1] and makers[0][1] == makers[1][1]:
                pair = (makers[0][0], makers[1][0])
                if self._key(0, pair[0], exactly) == self._key(1, pair[1], exactly):
                    found.append(pair)
        for names in zip(nodes[0].output, nodes[1].output, strict=False):
            groups: dict[Hashable, tuple[list[int], list[int]]] = {}
            for which, (wiring, name) in enumerate(zip(wirings, names, strict=True)):
                for reader, slot in wiring.readers.get(name, ()):
                    if self.partner[which][reader] is None:
                        key = (slot, self._key(which, reader, exactly))
                        groups.setdefault(key, ([], []))[which].append(reader)
            for left, right in groups.values():
                if len(left) == len(right) and (most is None or len(left) <= most):
                    found += self._in_order(left, right)
        return found

    def _key(self, which: int, index: int, exactly: bool) -> Hashable:
        side = self.sides[which]
        return side.local[index] if exactly else (side.wiring.nodes[index].domain, side.wiring.nodes[index].op_type)
