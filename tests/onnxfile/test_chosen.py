"""Sizes that hang together: those that were given stay, the rest follows, and a contradiction has both sides."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bench.api.errors import InputError
from bench.onnxfile.shapes import tensors
from bench.onnxfile.shapes.size_choice import Chosen, choose
from bench.onnxfile.shapes.stated_sizes import stated

CACHED = ("past", "new", "past + new")
HALVES = ("2*n", "n/2", "ceil(n/4)")


def chosen(texts: tuple[str, ...], **given: int) -> Chosen:
    known = stated(texts)
    return choose(known, given, dict.fromkeys(known.dims, 16))


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({}, (16, 16, 32)),
        ({"past": 0}, (0, 16, 16)),
        ({"past": 0, "new": 1}, (0, 1, 1)),
        ({"past + new": 40}, (16, 24, 40)),
        ({"past + new": 40, "past": 8}, (8, 32, 40)),
        ({"past + new": 16, "new": 16}, (0, 16, 16)),
        ({"past + new": 33, "new": 1}, (32, 1, 33)),
        ({"past + new": 5000, "new": 1}, (4999, 1, 5000)),
        ({"past + new": 17}, (16, 1, 17)),
        ({"past + new": 16}, (8, 8, 16)),
        ({"past + new": 8}, (4, 4, 8)),
        ({"past + new": 2}, (1, 1, 2)),
        ({"past + new": 1}, (0, 1, 1)),
        ({"past + new": 0}, (0, 0, 0)),
        ({"past + new": 8, "past": 0}, (0, 8, 8)),
    ],
)
def test_a_sum_is_solved_with_what_was_given(given: Mapping[str, int], values: tuple[int, ...]) -> None:
    known = stated(CACHED)
    found = choose(known, given, dict.fromkeys(known.dims, 16))
    assert tuple(found.values[text] for text in CACHED) == values


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({}, (32, 8, 4)),
        ({"n": 6}, (12, 3, 2)),
        ({"2*n": 20}, (20, 5, 3)),
        ({"n/2": 7}, (28, 7, 4)),
        ({"ceil(n/4)": 5}, (40, 10, 5)),
    ],
)
def test_multiples_and_shares_are_solved(given: Mapping[str, int], values: tuple[int, ...]) -> None:
    found = choose(stated(HALVES), given, {"n": 16})
    assert tuple(found.values[text] for text in HALVES) == values


@pytest.mark.parametrize(
    ("text", "given", "sizes"),
    [
        ("a + b + c", 4, (2, 1, 1)),
        ("a + b + c", 2, (0, 1, 1)),
        ("a*b*c", 7, (1, 1, 7)),
        ("a*b + c", 2, (1, 1, 1)),
        ("min(a, b, c)", 20, (20, 20, 20)),
    ],
)
def test_more_than_two_dimensions_are_solved_together(text: str, given: int, sizes: tuple[int, ...]) -> None:
    found = choose(stated(("a", "b", "c", text)), {text: given}, dict.fromkeys("abc", 16))
    assert found.values[text] == given
    assert sorted(found.sizes.values()) == sorted(sizes)


def test_no_elements_stay_where_they_are_likely() -> None:
    """As of a task whose cache was asked to be empty, at another size of its mask."""
    found = choose(stated(CACHED), {"past + new": 8}, {"past": 0, "new": 16})
    assert found.sizes == {"past": 0, "new": 8}


@pytest.mark.parametrize(
    ("texts", "given", "guessed"),
    [
        (CACHED, {"past + new": 20}, {"past", "new"}),
        (CACHED, {"past + new": 1}, {"past", "new"}),
        (CACHED, {"past + new": 0}, set()),
        (CACHED, {"past + new": 20, "new": 4}, set()),
        (("a", "b", "a + b", "a - b + 0"), {"a + b": 8, "a - b + 0": 4}, set()),
        (("a", "b", "a + b", "2*b + 2*a"), {"a + b": 8, "2*b + 2*a": 16}, {"a", "b"}),
        (("a", "b", "a*b"), {"a*b": 7}, {"a", "b"}),
        (("a", "b", "c", "a + b", "b + c"), {"a + b": 8, "b": 3, "b + c": 5}, set()),
        (HALVES, {"n/2": 7}, set()),
        (HALVES, {"ceil(n/4)": 5}, {"n"}),  # 18 or 20
        (("n", "n*n"), {"n*n": 49}, set()),
        (("m", "n", "m%n + 0"), {"m%n + 0": 3, "n": 5}, {"m"}),
    ],
)
def test_only_the_one_size_that_fits_is_derived(
    texts: tuple[str, ...], given: Mapping[str, int], guessed: set[str]
) -> None:
    found = chosen(texts, **given)
    assert set(found.guessed) == guessed
    assert set(found.following) == {*found.stated.dims, *found.stated.following} - guessed - set(given)


def test_a_guess_is_told_as_one() -> None:
    assert chosen(CACHED, **{"past + new": 20}).lines() == [
        "sizes: past + new=20 (given), past=16, new=4 (guessed); say others with --dim past=SIZE"
    ]


def test_what_contradicts_itself_decides_no_dimension() -> None:
    found = choose(stated(CACHED), {"past + new": 1, "past": 3}, {"new": 2}, strict=False)
    assert (found.guessed, found.following) == ({"new": 2}, {})


@pytest.mark.parametrize(
    ("texts", "given", "message"),
    [
        (
            CACHED,
            {"past": 16, "new": 16, "past + new": 40},
            "dimension 'past + new' is given 40, and new=16 and past=16 make it 32; leave one of them out, or say "
            "--dim 'past + new=32'",
        ),
        (
            CACHED,
            {"past": 20, "past + new": 10},
            "dimension 'past + new' is given 10, which no size of new makes with past=20; say --dim 'past + new=36'",
        ),
        (HALVES, {"n": 7}, "dimension 'n/2' is no whole number with n=7; say --dim n=8"),
        (
            HALVES,
            {"2*n": 14},
            "dimension '2*n' is given 14, which no size of n makes with a whole 'n/2'; say --dim '2*n=32'",
        ),
        (
            (*CACHED, "2*past + 2*new"),
            {"past + new": 8, "2*past + 2*new": 20},
            "dimension 'past + new' is given 8, which no size of new and past makes with 2*past + 2*new=20; leave one "
            "of them out, or say --dim 'past + new=10'",
        ),
        (
            ("a", "b", "a*a - 2*b*b"),
            {"a*a - 2*b*b": 3},
            "dimension 'a*a - 2*b*b' is given 3, and no size of a and b was found that makes it; say "
            "--dim 'a*a - 2*b*b=17'",
        ),
        (
            ("m", "n", "m - n - 1"),
            {"m": 0},
            "dimension 'm - n - 1' is no size of 0 or more with m=0 and any n; say --dim m=1",
        ),
        (
            ("n", "3 - n", "n - 5"),
            {},
            "dimension '3 - n' is no size of 0 or more with any n, together with dimension 'n - 5'; the file "
            "contradicts itself",
        ),
        (
            ("m", "n", "m//n"),
            {"m": 4, "n": 0, "m//n": 2},
            "dimension 'm//n' is no size of 0 or more with m=4 and n=0; say --dim n=1",
        ),
        (
            ("a", "b", "c", "b + c", "b + c + a"),
            {"a": 3, "b + c": 5, "b + c + a": 7},
            "dimension 'b + c' is given 5, which no size of b and c makes with a=3 and b + c + a=7; leave one of them "
            "out, or say --dim 'b + c=4'",
        ),
        (("a", "(a*a + 1)/1000003"), {}, "no size of a was found with which dimension '(a*a + 1)/1000003' is whole"),
        (("n", "n - n - 1"), {}, "dimension 'n - n - 1' is no size of 0 or more; the file contradicts itself"),
        (HALVES, {"2*n": 7}, "dimension '2*n' is given 7, which no size of n makes; say --dim '2*n=32'"),
        (("n", "n - 3 + 0"), {"n": 1}, "dimension 'n - 3 + 0' is no size of 0 or more with n=1; say --dim n=3"),
        (
            ("m", "n", "m//n"),
            {"m": 4, "n": 0},
            "dimension 'm//n' is no size of 0 or more with m=4 and n=0; say --dim n=1",
        ),
    ],
)
def test_a_contradiction_has_both_sides(texts: tuple[str, ...], given: Mapping[str, int], message: str) -> None:
    known = stated(texts)
    with pytest.raises(InputError) as raised:
        choose(known, given, dict.fromkeys(known.dims, 16))
    assert str(raised.value) == message


def test_samples_are_as_they_are_whatever_the_file_states() -> None:
    known = stated(CACHED)
    given = {"past": 3, "new": 4, "past + new": 9}
    assert choose(known, given, {}, strict=False).values == given


def test_sizes_are_told_by_who_chose_them() -> None:
    assert chosen(CACHED).lines() == [
        "sizes: past=16, new=16 (guessed), past + new=32 (from these); say others with --dim past=SIZE"
    ]
    assert chosen(CACHED, past=0).lines() == [
        "sizes: past=0 (given), new=16 (guessed), past + new=16 (from these); say others with --dim new=SIZE"
    ]
    assert chosen(CACHED, past=0, new=1).lines() == [
        "sizes: past=0, new=1 (given), past + new=1 (from these); say others with --dim past=SIZE"
    ]
    assert chosen(("n", "k"), n=1, k=2).lines() == [], "a person gave them all"
    assert chosen(CACHED, past=0).lines(without=["new"]) == [], "new has several sizes, and so has what follows"


def test_a_dimension_that_a_given_sum_decides_is_not_guessed() -> None:
    found = choose(stated(CACHED), {"past + new": 40, "past": 8}, {"new": 16})
    assert (found.guessed, found.following) == ({}, {"new": 32})


def test_likely_sizes_are_those_of_a_place_of_its_own() -> None:
    shapes = [("2*batch", 4, "height", "width"), ("batch", "2*height")]
    known = tensors.stated_of(dict(enumerate(shapes)))  # type: ignore[arg-type]
    assert tensors.likely_sizes(known, shapes) == {"height": 224, "width": 224, "batch": 1}
