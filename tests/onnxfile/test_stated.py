"""Texts of dimensions that are arithmetic, and those that are names."""

from __future__ import annotations

import pytest

from bench.onnxfile.shapes.constraints import value_of
from bench.onnxfile.shapes.dims import symbol
from bench.onnxfile.shapes.size_choice import choose
from bench.onnxfile.shapes.stated_sizes import stated


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("past + new", 25),
        ("new+past", 25),
        ("2*past", 40),
        ("past * 2 - new", 35),
        ("past/2", 10),
        ("past//3", 6),
        ("floor(past/3)", 6),
        ("ceil(past/3)", 7),
        ("ceiling(new/4)", 2),
        ("CeilToInt(IntTrueDiv(past, 3))", None),  # SymPy's division of PyTorch is no function that is read
        ("((past - 1)//2) + 1", 10),
        ("Max(past, new)", 20),
        ("Min(1, past, new)", 1),
        ("Mod(past, 3)", 2),
        ("past % 3", 2),
        ("new**2", 25),
        ("new + ((9**8)**8)**8", None),  # has 160 million digits after a few more
        ("(past*new)/4", 25),
    ],
)
def test_arithmetic(text: str, value: int | None) -> None:
    found = stated(["past", "new", text])
    if value is None:
        assert found.sizes[text] == symbol(text)
        return
    assert value_of(found.sizes[text], {"past": 20, "new": 5}) == value
    assert (found.dims, found.following) == (("past", "new"), (text,))


@pytest.mark.parametrize(
    "text",
    [
        "batch-size",
        "encoder/length",
        "rows/2",
        "x:0_1",
        "unk__12",
        "N",
        "a b",
        "",
        "f(n)",
        "2",
        "1 + 1",
        "n[0] + n",
        "n +",
    ],
)
def test_names_that_are_no_arithmetic(text: str) -> None:
    found = stated([text])
    assert found.sizes == {text: symbol(text)}
    assert (found.dims, found.following) == ((text,), ())


def test_a_difference_of_dimensions_that_there_are_is_arithmetic() -> None:
    assert stated(["total-new", "total", "new"]).sizes["total-new"] == symbol("total") - symbol("new")


def test_dimensions_without_a_text_of_their_own() -> None:
    found = stated(["2*n", "n/2", "ceil(n/4)"])
    assert (found.dims, found.following) == (("n",), ("2*n", "n/2", "ceil(n/4)"))
    assert {text: value_of(size, {"n": 10}) for text, size in found.sizes.items()} == {
        "2*n": 20,
        "n/2": 5,
        "ceil(n/4)": 3,
    }
    assert {text: value_of(size, {"n": 9}) for text, size in found.remainders.items()} == {"n/2": 1}


def test_sums_that_are_spelled_in_several_ways_are_one_size() -> None:
    found = stated(["past + new", "new+past", "(new) + 1*past", "past", "new"])
    assert len({found.sizes[text] for text in found.following}) == 1


def test_known_dimensions_are_numbers() -> None:
    found = stated(["past + new", "past", "new"], {"past": 3})
    assert found.sizes == {"past + new": symbol("new") + 3, "past": 3, "new": symbol("new")}


@pytest.mark.parametrize(
    "text",
    ["n + " * 60 + "1", "(" * 150 + "n" + ")" * 150 + "+1", "n // 0", "(n + 1)**99", "1/0 + n", "a" * 300 + "+b"],
)
def test_texts_that_are_no_sizes_are_names(text: str) -> None:
    assert stated([text]).following == ()


def test_a_text_is_about_what_its_remainder_is_about() -> None:
    found = stated(("a", "(a - a)/(b + 0)"))
    assert (found.sizes["(a - a)/(b + 0)"], found.of("(a - a)/(b + 0)"), found.dims) == (0, ("b",), ("a", "b"))
    assert choose(found, {}, {"a": 3, "b": 2}).sizes == {"a": 3, "b": 2}
