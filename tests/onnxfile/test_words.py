"""The words that the string inputs of a file are made for."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from bench.onnxfile.file import words as module
from bench.onnxfile.file.lazy import Stored

STRING = TensorProto.STRING


def found(shape: list[Any], nodes: list[Any], **weights: Any) -> Any:
    tensors = [numpy_helper.from_array(np.asarray(array), key) for key, array in weights.items()]
    value, output = helper.make_tensor_value_info("x", STRING, shape), helper.make_tensor_value_info("y", STRING, None)
    graph = helper.make_graph(nodes, "g", [value], [output], tensors)
    return module.words(Stored(model=helper.make_model(graph), path=None)).get("x")


def encoder(source: str, *categories: str) -> Any:
    return helper.make_node("OneHotEncoder", [source], ["y"], domain="ai.onnx.ml", cats_strings=categories)


def test_words_are_those_of_the_nodes_behind_nodes_that_pass_them_on() -> None:
    normalized = helper.make_node("StringNormalizer", ["x"], ["z"], case_change_action="LOWER")
    assert found(["n"], [normalized, encoder("z", "red", "blue", "red")]) == ("red", "blue")
    keys = numpy_helper.from_array(np.array(["a", "b"], object), "keys")
    table = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_tensor=keys, values_int64s=[0, 1])
    assert found(["n"], [table]) == ("a", "b")


def test_an_input_without_a_vocabulary_has_no_words() -> None:
    assert found(["n"], [helper.make_node("Identity", ["x"], ["y"])]) is None
    reads_labels = helper.make_node("Shape", ["x"], ["s"]), encoder("s", "red")
    assert found(["n"], [*reads_labels]) is None, "a shape holds no words"


def test_columns_have_words_of_their_own() -> None:
    nodes = [
        helper.make_node("Gather", ["x", "first"], ["a"], axis=1),
        helper.make_node("ArrayFeatureExtractor", ["x", "second"], ["b"], domain="ai.onnx.ml"),
        encoder("a", "red", "blue"),
        helper.make_node("OneHotEncoder", ["b"], ["z"], domain="ai.onnx.ml", cats_strings=["small"]),
    ]
    indices = {"first": np.array([0]), "second": np.array([1])}
    assert found(["n", 2], nodes, **indices) == (("red", "blue"), ("small",))
    assert found(["n", 3], nodes, **indices) == ("red", "blue", "small"), "the third has no vocabulary"


def test_columns_are_places_of_the_last_axis() -> None:
    def gathered(axis: int) -> list[Any]:
        nodes = [helper.make_node("Gather", ["x", f"i{place}"], [f"c{place}"], axis=axis) for place in (0, 1)]
        return [*nodes, encoder("c0", "red", "blue"), encoder("c1", "small")]

    indices = {"i0": np.array([0]), "i1": np.array([1])}
    assert found(["n", 2, 2], gathered(2), **indices) == (("red", "blue"), ("small",))
    assert found(["n", 2, 2], gathered(-1), **indices) == (("red", "blue"), ("small",))
    assert found(["n", 2, 2], gathered(1), **indices) == ("red", "blue", "small"), "the middle axis has no columns"


def test_texts_are_made_of_words() -> None:
    nodes = [
        helper.make_node("StringSplit", ["x"], ["z", "counts"]),
        helper.make_node("TfIdfVectorizer", ["z"], ["y"], pool_strings=["good", "bad"]),
    ]
    texts = found(["n"], nodes)
    assert len(texts) == module.NUM_TEXTS
    assert len(set(texts)) > module.NUM_TEXTS / 2
    assert {word for text in texts for word in text.split(" ")} == {"good", "bad"}
    assert {len(text.split(" ")) for text in texts} == {module.WORDS_IN_TEXT}


def test_large_vocabularies_are_thinned_out() -> None:
    names = [f"word{number}" for number in range(1000)]
    chosen = found(["n"], [encoder("x", *names)])
    assert module.MOST_WORDS / 2 < len(chosen) <= module.MOST_WORDS
    assert int(chosen[-1].removeprefix("word")) > 990
