"""The tensors that an ONNX model shares with a model made from it, in which they may have other names."""

from __future__ import annotations

from bench.onnxfile.diff.matching import Matching
from bench.onnxfile.file.lazy import Stored

KEPT_SHARE = 0.5
"""If a larger share of the matched nodes make tensors of the same name, names are taken as evidence."""


def common_tensors(before: Stored, after: Stored) -> dict[str, str]:
    """Names of the second model's tensors that the first model has, too, each with its name there.

    Tensors of one name are the same, and those whose name is in one model alone if matched nodes make them: see
    `matching`. If most of the matched nodes make tensors of other names, an optimizer has renamed everything, and a
    name may now belong to another tensor than before: then only the names of outputs count.
    """
    matching = Matching(before, after)
    wiring, other = (side.wiring for side in matching.sides)
    pairs = [
        (old, new)
        for index, partner in matching.pairs
        for old, new in zip(wiring.nodes[index].output, other.nodes[partner].output, strict=False)
        if old and new
    ]
    are_kept = sum(old == new for old, new in pairs) > KEPT_SHARE * len(pairs)
    named_alike = {
        name: name
        for name in other.made_by
        if name in wiring.made_by and (are_kept or (name in wiring.outputs and name in other.outputs))
    }
    taken = set(named_alike)
    return named_alike | {new: old for old, new in pairs if old not in taken and new not in taken}
