"""Which tensor of one ONNX model is which of another that was made from it, though it may have another name there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.graphs.diff.matching import Side, match

if TYPE_CHECKING:
    from bench.graphs.file.lazy import Stored

KEPT_SHARE = 0.5
"""Where more of the matched nodes make tensors of the same name, names mean something."""


def common_tensors(before: Stored, after: Stored) -> dict[str, str]:
    """Names of the second model's tensors that the first one has, too, with their names there.

    Tensors of one name are the same, and those whose name is in one model alone if matched nodes make them: see
    `matching`. Where most of the matched nodes make tensors of other names, an optimizer has renamed everything, and
    what has a name now may be another tensor than what had it before: then names say nothing, but of outputs.
    """
    one, other = Side(before), Side(after)
    pairs = [
        (old, new)
        for index, found in match(one, other)
        for old, new in zip(one.wiring.nodes[index].output, other.wiring.nodes[found].output, strict=False)
        if old and new
    ]
    are_kept = sum(old == new for old, new in pairs) > KEPT_SHARE * len(pairs)
    named_alike = {
        name: name
        for name in other.wiring.made_by
        if name in one.wiring.made_by and (are_kept or (name in one.wiring.outputs and name in other.wiring.outputs))
    }
    taken = set(named_alike)
    return named_alike | {new: old for old, new in pairs if old not in taken and new not in taken}
