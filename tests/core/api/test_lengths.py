"""Made-up lengths lie between 1 and the size of what they are the lengths of."""

from __future__ import annotations

import pytest

from bench.api import TensorSpec
from bench.api.lengths import domains

SIZES = {"N": 2, "T": 16, "U": 24, "L": 5}


def spec(name: str, *shape: int | str, dtype: str = "int64") -> TensorSpec:
    return TensorSpec(name=name, dtype=dtype, shape=shape)


TOKENS, FRAMES = spec("x", "N", "T"), spec("mel", "N", 80, "U", dtype="float32")


@pytest.mark.parametrize(
    "name",
    [
        *("input_lengths", "lengths", "x_lengths", "seq_len", "seq_lens", "seqlens", "length", "sequence_length"),
        *("xlen", "ilens", "inputLengths", "XLength", "x.lengths", "x_lengths:0", "token-len", "lengths_1"),
    ],
)
@pytest.mark.parametrize("shape", [("N",), ("N", 1), (), (1,)])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_lengths_are_those_of_the_other_input(name: str, shape: tuple[int | str, ...], dtype: str) -> None:
    assert domains([TOKENS, spec(name, *shape, dtype=dtype)], SIZES) == {name: (1, 16)}


@pytest.mark.parametrize(
    ("name", "largest"),
    [("x_lengths", 16), ("mel_lengths", 24), ("mellens", 24), ("mel_len", 24), ("lengths", 16), ("other_lengths", 16)],
)
def test_a_name_says_of_which_input_the_lengths_are(name: str, largest: int) -> None:
    others = [spec("scales", 3, dtype="float32"), spec("sid", "N"), FRAMES, TOKENS]
    assert domains([*others, spec(name, "N")], SIZES) == {name: (1, largest)}


def test_two_lengths_are_each_of_its_own_input() -> None:
    """As of a model that tells a text from a sound: neither is the other's."""
    inputs = [spec("text_lengths", "N"), spec("text", "N", "T"), spec("mel_lengths", "N"), FRAMES]
    assert domains(inputs, SIZES) == {"text_lengths": (1, 16), "mel_lengths": (1, 24)}
    char, diac = spec("char_inputs", "N", "T"), spec("diac_inputs", "N", "T")
    assert domains([char, diac, spec("input_lengths", "N")], SIZES) == {"input_lengths": (1, 16)}


@pytest.mark.parametrize(
    ("others", "largest"),
    [
        ([spec("x", 1, 40)], 40),
        ([spec("x", 1, 80, 3000, dtype="float32")], 80),
        ([spec("x", 40)], 40),
        ([spec("x", "T", 80, dtype="float32")], 16),
        ([spec("x", "N", "T", 512)], 16),
        ([spec("x", "N", "unknown", 512)], 512),
    ],
)
def test_without_a_dynamic_size_the_smallest_is_safe(others: list[TensorSpec], largest: int) -> None:
    assert domains([*others, spec("lengths", "N")], SIZES)["lengths"] == (
        1,
        largest if len(others[0].shape) > 1 else 40,
    )
    assert domains([*others, spec("length")], SIZES)["length"] == (1, largest)


@pytest.mark.parametrize(
    "inputs",
    [
        [spec("lengths", "N")],
        [TOKENS, spec("lengths", "N", "T")],
        [TOKENS, spec("lengths", "N", dtype="float32")],
        [TOKENS, spec("max_length", 1), spec("min_length", 1), spec("past_sequence_length", 1)],
        [TOKENS, spec("sid", "N"), spec("lenient", "N"), spec("island", "N"), spec("wavelengthy", "N")],
        [spec("x", "N", 0), spec("lengths", "N")],
        [spec("lengths", "N"), spec("widths", "N")],
    ],
)
def test_what_holds_no_lengths_has_no_domain(inputs: list[TensorSpec]) -> None:
    assert domains(inputs, SIZES) == {}
