"""The words that the string inputs of an ONNX file are made for: those of the vocabularies that its nodes hold.

A word that no vocabulary has leads to zeros, or to an error, whatever a deployment does wrong.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence

from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file.domains import MOVES
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.file.wiring import Wiring

_Words = tuple[str, ...]
_VOCABULARIES = ("pool_strings", "keys_strings", "keys_tensor", "cats_strings", "classes_strings")
"""Attributes that list the strings that a node knows."""
_CUTS = ("StringSplit", "Tokenizer")
"""Operators that cut a text into words."""
PASSES = (*MOVES, *_CUTS, "ArrayFeatureExtractor", "Concat", "Gather", "Split", "StringNormalizer")
"""Operators whose outputs hold the strings of an input, or parts of them."""
MOST_WORDS = 256
"""Words of a larger vocabulary are drawn from it evenly."""
NUM_TEXTS, WORDS_IN_TEXT = 64, 8


def words(stored: Stored) -> dict[str, _Words | tuple[_Words, ...]]:
    """The strings to draw from for each string input with a vocabulary, by the input's name.

    An input whose columns have vocabularies of their own has a tuple of words for each place of its last axis. For an
    input that the model cuts into words, the strings are texts of several words.
    """
    wiring = Wiring(stored)
    strings: dict[str, _Words | tuple[_Words, ...]] = {}
    for name, value in wiring.inputs.items():
        tensor = value.type.tensor_type
        if tensor.elem_type != onnx.TensorProto.STRING:
            continue
        known, is_text = _vocabularies(wiring, name)
        dims = tensor.shape.dim
        columns = dims[-1].dim_value if dims else 0
        everything = _some([word for several in known.values() for word in several])
        if is_text and everything:
            strings[name] = _texts(everything)
        elif columns and None not in known and set(known) == set(range(columns)):
            strings[name] = tuple(_some(known[column]) for column in range(columns))
        elif everything:
            strings[name] = everything
    return strings


def _vocabularies(wiring: Wiring, name: str) -> tuple[Mapping[int | None, Sequence[str]], bool]:
    """The strings that nodes know which read an input, directly or passed on; and whether they read parts of texts.

    Returns:
        The strings by column of the input, or under None where a node reads all columns.
    """
    known: dict[int | None, list[str]] = collections.defaultdict(list)
    is_text = False
    rank = len(wiring.inputs[name].type.tensor_type.shape.dim)
    pending: list[tuple[str, int | None]] = [(name, None)]
    seen = set(pending)
    while pending:
        value, column = pending.pop(0)
        for index, position in wiring.readers.get(value, ()):
            node = wiring.nodes[index]
            known[column] += _strings(node)
            if node.op_type not in PASSES or (position and node.op_type != "Concat"):
                continue
            is_text = is_text or node.op_type in _CUTS
            own = _column(wiring, node, rank) if column is None else column
            for output in node.output:
                if (output, own) not in seen:
                    seen.add((output, own))
                    pending.append((output, own))
    return {column: several for column, several in known.items() if several}, is_text


def _strings(node: onnx.NodeProto) -> Iterator[str]:
    for attribute in node.attribute:
        if attribute.name in _VOCABULARIES:
            stored = attribute.t.string_data if attribute.HasField("t") else attribute.strings
            yield from (text.decode(errors="replace") for text in stored)


def _column(wiring: Wiring, node: onnx.NodeProto, rank: int) -> int | None:
    """The one column, a place of the last axis, that a node takes of a table with `rank` axes; None for other nodes."""
    if node.op_type not in ("ArrayFeatureExtractor", "Gather"):
        return None
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
    tensor = wiring.weights.get(node.input[1])
    if not isinstance(tensor, onnx.TensorProto) or (node.op_type == "Gather" and axis not in (-1, rank - 1)):
        return None
    if not wiring.stored.has(tensor) or (places := wiring.stored.array(tensor)).size != 1:
        return None
    return int(places.item()) if places.item() >= 0 else None


def _some(several: Sequence[str]) -> _Words:
    """At most `MOST_WORDS` of the different strings, spread evenly over their list."""
    different = list(dict.fromkeys(several))
    return tuple(different[:: -(-len(different) // MOST_WORDS) or 1])


def _texts(several: _Words) -> _Words:
    generator = np.random.default_rng(0)
    drawn = generator.integers(0, len(several), (NUM_TEXTS, WORDS_IN_TEXT))
    return tuple(" ".join(several[index] for index in row) for row in drawn)
