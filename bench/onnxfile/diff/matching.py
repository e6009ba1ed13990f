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
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import Scope, attribute_digest, sha256, tensor_digest
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.file.text import tensor_type
from bench.onnxfile.file.wiring import Wiring

_TELLING = 16
"""Least number of elements of a weight that identifies its node; a shape or a scale does not."""


class Side:
    """One of the models, with the keys that its nodes are matched by.

    Attributes:
        kinds: type and shape of each weight, by name.
        contents: hash of type, shape and elements of each weight, by name.
        local: hash of each node by itself: its operator, attributes and number of outputs.
        values: hash of each value with all nodes and weights that lead to it, by name; see `add_keys`.
        keys: the keys of the nodes, by the kind of key; see `add_keys`.
    """

    values: Mapping[str, bytes]
    keys: Mapping[str, Sequence[Hashable]]

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

    def add_keys(self, other: Wiring) -> None:
        """Set `values` and `keys`, in which inputs and outputs stand for those of the other model.

        The kinds of keys:

        - `local`: of a node by itself, as in the attribute `local`;
        - `own`: of a node and its weights; unique for a node with small weights or none;
        - `exact`: of a node and everything that leads to it;
        - `loose`: the same without the elements of the weights;
        - `behind`: of a node and everything that its outputs lead to.
        """
        inputs = _paired_keys(self.wiring.inputs, other.inputs)
        exact, self.values = self._from_inputs(inputs | self.contents)
        loose, _ = self._from_inputs(inputs | self.kinds)
        behind = self._to_outputs(_paired_keys(self.wiring.outputs, other.outputs))
        own = [self._own_weights(index) for index in range(len(self.local))]
        self.keys = {"local": self.local, "own": own, "exact": exact, "loose": loose, "behind": behind}

    def _from_inputs(self, values: dict[str, bytes]) -> tuple[list[bytes], dict[str, bytes]]:
        """Hash each node with everything that leads to it.

        Args:
            values: keys of the inputs and weights, by name.

        Returns:
            The hashes of the nodes, and the keys of all values, by name.
        """
        keys = []
        for index, node in enumerate(self.wiring.nodes):
            keys.append(sha256(self.local[index], *[values.get(name, b"") for name in self.wiring.reads[index]]))
            values |= {name: sha256(keys[-1], b"%d" % position) for position, name in enumerate(node.output) if name}
        return keys, values

    def _to_outputs(self, outputs: Mapping[str, bytes]) -> list[bytes]:
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

    def _own_weights(self, index: int) -> Hashable:
        weights = [name for name in self.wiring.reads[index] if name in self.contents]
        if any(math.prod(self.wiring.weights[name].dims) >= _TELLING for name in weights):
            return (self.local[index], *[self.contents[name] for name in weights])
        return id(self), index


def _paired_keys(names: Collection[str], others: Collection[str]) -> dict[str, bytes]:
    """Keys of one model's inputs or outputs: equal for equal names, and by position for the other names."""
    rest = [name for name in names if name not in others]
    keys = {name: b"name " + name.encode() for name in names if name in others}
    return keys | {name: b"number %d" % position for position, name in enumerate(rest)}


def _write_out_defaults(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Set the attributes that are left out and have a default, because some exporters write them and others do not."""
    versions = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain or "ai.onnx", 1), node.domain)
    except onnx.defs.SchemaError:
        return
    names = {attribute.name for attribute in node.attribute}
    for name, declared in schema.attributes.items():
        if name not in names and declared.default_value.name:
            node.attribute.append(declared.default_value)


class Matching:
    """Two models and the pairs of their nodes.

    Attributes:
        sides: the first model and the second.
        partner: for each model, the index of each matched node with the index of its partner in the other model.
    """

    def __init__(self, before: Stored, after: Stored) -> None:
        """Match the nodes.

        Raises:
            ArtifactError: a graph uses a value before it is made.
            InputError: external data are missing.
        """
        self.sides = (Side(before), Side(after))
        self.partner: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for side, other in zip(self.sides, reversed(self.sides), strict=True):
            side.add_keys(other.wiring)
        self._pair("exact", "behind", only_if_even=False)
        self._pair("exact", only_if_even=False)  # equal computations match, whichever nodes read them
        for most in (1, None):
            for kinds in (("own",), ("loose", "behind"), ("loose",), ("behind",)):
                self._pair(*kinds, most=most)
                self._spread(exactly=True, most=most)
            self._spread(exactly=False, most=most)
        self._pair("local")
        self._spread(exactly=False, most=None)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of nodes, by index, in the order of the first model."""
        return sorted(self.partner[0].items())

    def _pair(self, *kinds: str, only_if_even: bool = True, most: int | None = None) -> None:
        """Match nodes that are left and have equal keys of all these kinds, in their order."""
        columns = [zip(*[side.keys[kind] for kind in kinds], strict=True) for side in self.sides]
        self._match(*map(enumerate, columns), most=most, only_if_even=only_if_even)

    def _match(
        self,
        indices: Iterable[tuple[int, Hashable]],
        other: Iterable[tuple[int, Hashable]],
        *,
        most: int | None,
        only_if_even: bool = True,
    ) -> list[tuple[int, int]]:
        """Match nodes with equal keys that are left: first those that share a name, then the others in their order.

        Args:
            indices: of nodes of the first model, each with a key.
            other: the same for the second model.
            most: skip a key that more nodes than this have; None for no limit.
            only_if_even: skip a key that more of the nodes have in one model than in the other.

        Returns:
            The new pairs of nodes, by index.
        """
        groups: dict[Hashable, tuple[list[int], list[int]]] = {}
        for which, nodes in enumerate((indices, other)):
            for index, key in nodes:
                if index not in self.partner[which]:
                    groups.setdefault(key, ([], []))[which].append(index)
        new = []
        for left, right in groups.values():
            if (not only_if_even or len(left) == len(right)) and (most is None or len(left) <= most):
                for index, partner in self._in_order(left, right):
                    if index not in self.partner[0] and partner not in self.partner[1]:  # a node may have several keys
                        self.partner[0][index], self.partner[1][partner] = partner, index
                        new.append((index, partner))
        return new

    def _in_order(self, left: Sequence[int], right: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Pairs of nodes that are alike: those that share a name, then the others in their order."""
        nodes, others = (side.wiring.nodes for side in self.sides)
        by_name = {others[index].name: index for index in right}
        named = {index: by_name[nodes[index].name] for index in left if nodes[index].name in by_name}
        taken = set(named.values())
        yield from named.items()
        rest = [index for index in left if index not in named]
        yield from zip(rest, [index for index in right if index not in taken], strict=False)

    def _spread(self, *, exactly: bool, most: int | None) -> None:
        """Match neighbours of matched nodes that are at the same place and have the same operator.

        Args:
            exactly: only if they have the same attributes, too.
            most: skip readers of a matched node if more than this number are alike; None for no limit.
        """
        pending = self.pairs
        limit: int | None
        doubtful: collections.deque[tuple[int, int]] = collections.deque()
        while pending or doubtful:
            if pending:
                pair, limit = pending.pop(), 1
                if most is None:
                    doubtful.append(pair)
            else:  # nothing is left that is beyond doubt
                pair, limit = doubtful.popleft(), most
            neighbours = [self._neighbours(which, index, exactly) for which, index in enumerate(pair)]
            pending += self._match(*neighbours, most=limit)

    def _neighbours(self, which: int, index: int, exactly: bool) -> Iterator[tuple[int, Hashable]]:
        """The nodes that a node reads from or that read it, each with a key of its place and its operator."""
        side = self.sides[which]
        nodes, made_by, readers = side.wiring.nodes, side.wiring.made_by, side.wiring.readers
        places = [("reads", at, made_by[name]) for at, name in enumerate(side.wiring.reads[index]) if name in made_by]
        for at, name in enumerate(nodes[index].output):
            places += [("makes", at, place) for place in readers.get(name, ())]
        for direction, at, (other, slot) in places:
            kind = side.local[other] if exactly else (nodes[other].domain, nodes[other].op_type)
            yield other, (direction, at, slot, kind)
