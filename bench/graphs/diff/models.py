"""The differences between two ONNX models: nodes added, removed and changed, and weights.

Names mean nothing: an optimizer may rename everything. Nodes are matched by what they compute; see `matching`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Mapping

from bench.graphs.deferred import np, onnx
from bench.graphs.diff.matching import Side, match
from bench.graphs.file.digest import canonical_digest
from bench.graphs.file.lazy import Stored
from bench.graphs.file.text import MOST_VALUES, attribute_text, tensor_type, value_type


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeRef:
    """A node of one of the models."""

    name: str
    op_type: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeChange:
    """A node that is in both models and differs.

    Attributes:
        changes: one line for each attribute, input or weight that differs.
        rewired_only: whether only the sources of its inputs have changed.
    """

    before: NodeRef
    after: NodeRef
    changes: tuple[str, ...]
    rewired_only: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightChange:
    """A weight at the same place in both models, with other elements.

    Attributes:
        max_abs_difference: None where type or shape differ, or an element is not finite.
        max_abs_before: the largest magnitude in the first model, to compare the difference with.
    """

    before: str
    after: str
    type_before: str
    type_after: str
    max_abs_difference: float | None
    max_abs_before: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphDiff:
    """The differences between two models.

    Attributes:
        equal: whether they are the same computation with the same weights: see `canonical_digest`.
        num_same: number of nodes that are the same in both.
        interface: a line for each difference of inputs, outputs and opsets.
        num_same_weights: number of the first model's weights whose elements are in the second one, too.
        removed_weights: names of weights of the first model alone that no matched node reads in both models.
        added_weights: names of weights of the second model alone that no matched node reads in both models.
    """

    equal: bool
    num_same: int
    removed: tuple[NodeRef, ...]
    added: tuple[NodeRef, ...]
    changed: tuple[NodeChange, ...]
    interface: tuple[str, ...]
    num_same_weights: int
    changed_weights: tuple[WeightChange, ...]
    removed_weights: tuple[str, ...]
    added_weights: tuple[str, ...]


def diff_models(before: Stored, after: Stored) -> GraphDiff:
    """Compare two models.

    Raises:
        ArtifactError: a graph uses a value before it is made.
        InputError: external data are missing.
    """
    assert before.path is not None
    assert after.path is not None
    equal = canonical_digest(before.path) == canonical_digest(after.path)
    one, other = Side(before), Side(after)
    return _Report(one, other, match(one, other)).result(equal)


class _Report:
    """Compares the nodes that have been matched."""

    def __init__(self, one: Side, other: Side, pairs: list[tuple[int, int]]) -> None:
        self.sides = (one, other)
        self.pairs = pairs
        self.partner = dict(pairs)
        self.weight_pairs: dict[tuple[str, str], None] = {}

    def result(self, equal: bool) -> GraphDiff:
        one, other = self.sides
        changed = [change for pair in self.pairs if (change := self._compare(*pair)) is not None]
        matched = set(self.partner.values())
        at_common_place = [{pair[which] for pair in self.weight_pairs} for which in (0, 1)]
        contents = [set(side.contents.values()) for side in self.sides]
        removed, added = (
            tuple(name for name, content in side.contents.items() if content not in elsewhere and name not in common)
            for side, elsewhere, common in zip(self.sides, reversed(contents), at_common_place, strict=True)
        )
        return GraphDiff(
            equal=equal,
            num_same=len(self.pairs) - len(changed),
            removed=tuple(_ref(one, index) for index in range(len(one.wiring.nodes)) if index not in self.partner),
            added=tuple(_ref(other, index) for index in range(len(other.wiring.nodes)) if index not in matched),
            changed=tuple(changed),
            interface=tuple(_interface(one, other)),
            num_same_weights=sum(content in contents[1] for content in one.contents.values()),
            changed_weights=tuple(self._weight_change(*pair) for pair in self.weight_pairs),
            removed_weights=removed,
            added_weights=added,
        )

    def _compare(self, one: int, other: int) -> NodeChange | None:
        nodes = [side.wiring.nodes[index] for side, index in zip(self.sides, (one, other), strict=True)]
        own = list(_attribute_changes(*nodes))
        if len(nodes[0].output) != len(nodes[1].output):
            own.append(f"outputs: {len(nodes[0].output)} -> {len(nodes[1].output)}")
        elif self.sides[0].local[one] != self.sides[1].local[other] and not own:
            own.append("a subgraph differs")
        rewired = []
        reads = [side.wiring.reads[index] for side, index in zip(self.sides, (one, other), strict=True)]
        for position, names in enumerate(itertools.zip_longest(*reads, fillvalue="")):
            before, after = names
            if before in self.sides[0].contents and after in self.sides[1].contents:
                if self.sides[0].contents[before] != self.sides[1].contents[after]:
                    self.weight_pairs[(before, after)] = None
                    texts = [_weight(side, name) for side, name in zip(self.sides, names, strict=True)]
                    own.append(f"weight {position}: {texts[0]} -> {texts[1]}")
            elif not self._same_source(before, after):
                rewired.append(f"input {position}: {_source(self.sides[0], before)} -> {_source(self.sides[1], after)}")
        if not own and not rewired:
            return None
        return NodeChange(
            before=_ref(self.sides[0], one),
            after=_ref(self.sides[1], other),
            changes=(*own, *rewired),
            rewired_only=not own,
        )

    def _same_source(self, before: str, after: str) -> bool:
        one, other = (side.wiring for side in self.sides)
        if before in one.made_by and after in other.made_by:
            (maker, position), (other_maker, other_position) = one.made_by[before], other.made_by[after]
            same = self.sides[0].exact[maker] == self.sides[1].exact[other_maker]  # one of several equal nodes
            return position == other_position and (same or self.partner.get(maker) == other_maker)
        if before in one.inputs and after in other.inputs:
            return before == after or (
                before not in other.inputs
                and after not in one.inputs
                and _rest(one.inputs, other.inputs).index(before) == _rest(other.inputs, one.inputs).index(after)
            )
        return not before and not after

    def _weight_change(self, before: str, after: str) -> WeightChange:
        sides = list(zip(self.sides, (before, after), strict=True))
        kinds = [side.kinds[name].decode() for side, name in sides]
        tensors = [side.wiring.weights[name] for side, name in sides]
        difference = largest = None
        numeric = re.match(r"u?int|b?float|bool", kinds[0])
        if kinds[0] == kinds[1] and numeric and all(tensor.DESCRIPTOR.name == "TensorProto" for tensor in tensors):
            stored = [side.wiring.stored for side in self.sides]
            old, new = (own.array(tensor).astype(np.float64) for own, tensor in zip(stored, tensors, strict=True))
            if np.isfinite(old).all() and np.isfinite(new).all():
                difference = float(np.abs(old - new).max(initial=0))
                largest = float(np.abs(old).max(initial=0))
        return WeightChange(
            before=before,
            after=after,
            type_before=kinds[0],
            type_after=kinds[1],
            max_abs_difference=difference,
            max_abs_before=largest,
        )


def _ref(side: Side, index: int) -> NodeRef:
    node = side.wiring.nodes[index]
    return NodeRef(name=node.name, op_type=node.op_type)


def _rest(names: Mapping[str, object], others: Mapping[str, object]) -> list[str]:
    return [name for name in names if name not in others]


def _source(side: Side, name: str) -> str:
    """The source of a value in words, for a message."""
    if not name:
        return "nothing"
    if name in side.contents:
        return f"weight {_weight(side, name)}"
    if name in side.wiring.made_by:
        node = side.wiring.nodes[side.wiring.made_by[name][0]]
        return f"{node.op_type} {node.name}"
    return f"input {name}"


def _weight(side: Side, name: str) -> str:
    """A weight in words, for a message: its elements if they are few, else its type."""
    weight = side.wiring.weights[name]
    if weight.DESCRIPTOR.name == "TensorProto" and math.prod(weight.dims) <= MOST_VALUES:
        return f"{name} = {side.wiring.stored.array(weight).tolist()}"
    return f"{name} ({tensor_type(weight)})"


def _attribute_changes(before: onnx.NodeProto, after: onnx.NodeProto) -> Iterator[str]:
    """Attributes that differ, but for what is in subgraphs."""
    old, new = ({attribute.name: attribute_text(attribute) for attribute in node.attribute} for node in (before, after))
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield f"{name}: {old.get(name, 'not set')} -> {new.get(name, 'not set')}"


def _interface(one: Side, other: Side) -> Iterator[str]:
    """Inputs, outputs and opsets that differ."""
    for kind in ("inputs", "outputs"):
        before, after = (
            {name: value_type(value) for name, value in getattr(side.wiring, kind).items()} for side in (one, other)
        )
        for name in dict.fromkeys((*before, *after)):
            if before.get(name) != after.get(name):
                yield f"{kind[:-1]} {name}: {before.get(name, 'none')} -> {after.get(name, 'none')}"
        if before.keys() == after.keys() and list(before) != list(after):
            yield f"{kind}: {', '.join(before)} -> {', '.join(after)}"
    versions = [
        {entry.domain or "ai.onnx": entry.version for entry in side.wiring.model.opset_import} for side in (one, other)
    ]
    for domain in dict.fromkeys((*versions[0], *versions[1])):
        if versions[0].get(domain) != versions[1].get(domain):
            yield f"opset {domain}: {versions[0].get(domain, 'none')} -> {versions[1].get(domain, 'none')}"
