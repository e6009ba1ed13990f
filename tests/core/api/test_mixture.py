"""A letter for each part of a model, spelled as text."""

from __future__ import annotations

import itertools
import time

import pytest

from bench.api import Part, mixture
from bench.api.errors import RefusedError


def part(name: str, letters: str = "fds") -> Part:
    return Part(name=name, operator="MatMul", alike="a", letters=letters, num_weights=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f", True),
        ("2f10d", True),
        ("fdf", True),
        ("", False),
        ("2", False),
        ("0f", False),
        ("2x", False),
        ("f2", False),
    ],
)
def test_what_is_a_spelling(text: str, expected: bool) -> None:
    assert mixture.is_spelled(text, "fds") is expected


def test_nothing_is_a_spelling_without_letters_or_beyond_the_longest() -> None:
    assert not mixture.is_spelled("f", "")
    assert mixture.is_spelled("f" * mixture.LONGEST, "f")
    assert not mixture.is_spelled("f" * (mixture.LONGEST + 1), "f")
    start = time.process_time()
    assert not mixture.is_spelled("1" * 999 + "x", "f")
    assert time.process_time() - start < 1, "the pattern must not try all ways to cut a run of digits"


def test_a_spelling_is_read_as_it_was_spelled() -> None:
    parts = [part(name) for name in "abcd"]
    for letters in itertools.product("fds", repeat=4):
        text = mixture.spell(letters)
        assert mixture.is_spelled(text, "fds")
        found = mixture.chosen(text, parts)
        assert {name: letter for letter, names in found.items() for name in names} == dict(
            zip("abcd", letters, strict=True)
        )
    assert mixture.spell("ffdf") == "2f1d1f"
    assert mixture.chosen("ff2d", parts) == {"f": ["a", "b"], "d": ["c", "d"]}


def test_a_spelling_for_another_model_is_refused() -> None:
    with pytest.raises(RefusedError, match="2f is for 2 parts, and the model has 3"):
        mixture.chosen("2f", [part("a"), part("b"), part("c")])
    with pytest.raises(RefusedError, match="part 2, a MatMul, can be f, d, not s"):
        mixture.chosen("1f1s", [part("a"), part("b", "fd")])
    with pytest.raises(RefusedError, match="999998f is for 999998 parts, and the model has 1"):
        mixture.chosen("999998f", [part("a")])
