"""The differences between two ONNX models: nodes added, removed and changed, and weights.

Names mean nothing: an optimizer may rename everything. Nodes are matched by what they compute; see `matching`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping

from bench.api.fidelity import errors, widened
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.diff.matching import Matching, Side
from bench.onnxfile.file.digest import canonical_digest
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.file.text import MOST_VALUES, attribute_text, tensor_type, value_type


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
    matching = Matching(before, after)
    model, other = matching.sides
    weight_pairs = _weight_pairs(matching)
    changed = [change for pair in matching.pairs if (change := _node_change(matching, weight_pairs, *pair)) is not None]
    contents = [set(side.contents.values()) for side in matching.sides]
    at_common_place = [{pair[which] for pair in weight_pairs} for which in (0, 1)]
    removed, added = (
        tuple(name for name, content in side.contents.items() if content not in elsewhere and name not in common)
        for side, elsewhere, common in zip(matching.sides, reversed(contents), at_common_place, strict=True)
    )
    return GraphDiff(
        equal=equal,
        num_same=len(matching.pairs) - len(changed),
        removed=_unmatched(model, matching.partner[0]),
        added=_unmatched(other, matching.partner[1]),
        changed=tuple(changed),
        interface=tuple(_interface(model, other)),
        num_same_weights=sum(content in contents[1] for content in model.contents.values()),
        changed_weights=tuple(_weight_change(model, other, *pair) for pair in weight_pairs),
        removed_weights=removed,
        added_weights=added,
    )


def _weight_pairs(matching: Matching) -> dict[tuple[str, str], None]:
    """Names of weights at the same place of matched nodes whose types or elements differ, in order."""
    model, other = matching.sides
    return {
        (before, after): None
        for index, partner in matching.pairs
        for before, after in zip(model.wiring.reads[index], other.wiring.reads[partner], strict=False)
        if before in model.contents and after in other.contents and model.contents[before] != other.contents[after]
    }


def _node_change(
    matching: Matching, weight_pairs: Collection[tuple[str, str]], index: int, partner: int
) -> NodeChange | None:
    """The differences between two nodes that have been matched; None if there are none.

    Args:
        weight_pairs: as `_weight_pairs` returns them.
        index: of the node in the first model.
        partner: index of its partner in the second model.
    """
    model, other = matching.sides
    nodes = model.wiring.nodes[index], other.wiring.nodes[partner]
    attributes = [{attribute.name: attribute_text(attribute) for attribute in node.attribute} for node in nodes]
    own = list(_changes("", *attributes, missing="not set"))
    if len(nodes[0].output) != len(nodes[1].output):
        own.append(f"outputs: {len(nodes[0].output)} -> {len(nodes[1].output)}")
    elif model.local[index] != other.local[partner] and not own:
        own.append("a subgraph differs")
    rewired = []
    reads = itertools.zip_longest(model.wiring.reads[index], other.wiring.reads[partner], fillvalue="")
    for position, (before, after) in enumerate(reads):
        if (before, after) in weight_pairs:
            own.append(f"weight {position}: {_weight(model, before)} -> {_weight(other, after)}")
        elif not _is_same_source(matching, before, after):
            rewired.append(f"input {position}: {_source(model, before)} -> {_source(other, after)}")
    if not own and not rewired:
        return None
    return NodeChange(before=_ref(nodes[0]), after=_ref(nodes[1]), changes=(*own, *rewired), rewired_only=not own)


def _is_same_source(matching: Matching, before: str, after: str) -> bool:
    """Whether two values are the same computation, or the same output of two nodes that have been matched."""
    model, other = matching.sides
    if model.values.get(before) == other.values.get(after):
        return True
    maker, position = model.wiring.made_by.get(before, (None, 0))
    return maker in matching.partner[0] and (matching.partner[0][maker], position) == other.wiring.made_by.get(after)


def _weight_change(model: Side, other: Side, before: str, after: str) -> WeightChange:
    types = model.kinds[before].decode(), other.kinds[after].decode()
    tensors = model.wiring.weights[before], other.wiring.weights[after]
    difference = largest = None
    is_dense = all(tensor.DESCRIPTOR.name == "TensorProto" for tensor in tensors)
    if types[0] == types[1] and is_dense and re.match(r"u?int|b?float|bool", types[0]):
        stored = model.wiring.stored, other.wiring.stored
        old, new = (own.array(tensor) for own, tensor in zip(stored, tensors, strict=True))
        if np.isfinite(widened(old)).all() and np.isfinite(widened(new)).all():
            difference = float(np.abs(errors(new, old)).max(initial=0))
            largest = float(np.abs(widened(old)).max(initial=0))
    return WeightChange(
        before=before,
        after=after,
        type_before=types[0],
        type_after=types[1],
        max_abs_difference=difference,
        max_abs_before=largest,
    )


def _ref(node: onnx.NodeProto) -> NodeRef:
    return NodeRef(name=node.name, op_type=node.op_type)


def _unmatched(side: Side, partner: Collection[int]) -> tuple[NodeRef, ...]:
    return tuple(_ref(node) for index, node in enumerate(side.wiring.nodes) if index not in partner)


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


def _changes(kind: str, before: Mapping[str, object], after: Mapping[str, object], *, missing: str) -> Iterator[str]:
    """A line for each name whose value differs.

    Args:
        kind: written before each name.
        missing: written where only the other model has the name.
    """
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield f"{kind}{name}: {before.get(name, missing)} -> {after.get(name, missing)}"


def _interface(model: Side, other: Side) -> Iterator[str]:
    """Inputs, outputs and opsets that differ."""
    for kind in ("inputs", "outputs"):
        before, after = (
            {name: value_type(value) for name, value in getattr(side.wiring, kind).items()} for side in (model, other)
        )
        yield from _changes(f"{kind[:-1]} ", before, after, missing="none")
        if before.keys() == after.keys() and list(before) != list(after):
            yield f"{kind}: {', '.join(before)} -> {', '.join(after)}"
    versions = [
        {entry.domain or "ai.onnx": entry.version for entry in side.wiring.model.opset_import}
        for side in (model, other)
    ]
    yield from _changes("opset ", *versions, missing="none")
