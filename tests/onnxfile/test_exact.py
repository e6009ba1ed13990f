"""Whole sizes that meet equations: found where there are some, and proven to be none otherwise."""

from __future__ import annotations

import itertools
import random

import pytest

from bench.onnxfile.shapes import exact
from bench.onnxfile.shapes.constraints import Requirement, Requirements
from bench.onnxfile.shapes.size_choice import Chosen
from bench.onnxfile.shapes.stated_sizes import stated

MOST = 6
NUM_TRIED = 100
WHOLE = {"a": (0, exact.LARGEST), "b": (0, exact.LARGEST), "c": (0, exact.LARGEST)}
LIKELY = dict.fromkeys("abc", 16)
SIGNS = ("{} + {}", "{} - {}", "{}*{}", "{}//{}", "{}%{}", "{}/{}", "min({}, {})", "max({}, {})", "ceil({}/{})")


def required(given: dict[str, int]) -> tuple[Requirement, ...]:
    """What sizes that were given for texts require."""
    found = Chosen(stated=stated((*"abc", *given)), given=given, sizes={})
    return found.with_requirements(Requirements(always=())).always


def expression(generator: random.Random, depth: int) -> str:
    if depth == 0 or generator.random() < 0.2:
        return generator.choice(("a", "b", "c", "2", "3"))
    return f"({generator.choice(SIGNS).format(*(expression(generator, depth - 1) for _ in range(2)))})"


def test_there_is_a_solution_exactly_where_trying_all_sizes_finds_one() -> None:
    small = dict.fromkeys("abc", (0, MOST))
    every = [dict(zip("abc", sizes, strict=True)) for sizes in itertools.product(range(MOST + 1), repeat=3)]
    num_solved = 0
    for seed in range(NUM_TRIED):
        generator = random.Random(seed)
        given = {expression(generator, 2): generator.randrange(9) for _ in range(2)}
        wanted = required(given)
        fitting = [sizes for sizes in every if all(one.is_met(sizes, {}) for one in wanted)]
        found = exact.solution(wanted, small, LIKELY)
        assert found in fitting if fitting else found is None, given
        num_solved += found is not None
    assert 0.2 < num_solved / NUM_TRIED < 0.8, "both sides are tried"


@pytest.mark.parametrize(
    ("given", "is_possible"),
    [
        ({"a + b + c": 0}, True),
        ({"a + b + c": 10**12}, True),
        ({"2*a + 4*b": 10**12 + 1}, False),
        ({"a*a": 50}, False),
        ({"a%b + 0": 9}, True),
        ({"a//(b - b)": 1, "a + b": 2}, True),  # no expression, so a name
        ({"a + b": 8, "2*a + 2*b": 20}, False),
        ({"a + b": 8, "c + 0*a": 3, "2*c + 0*a": 7}, False),
    ],
)
def test_sizes_of_any_magnitude(given: dict[str, int], is_possible: bool) -> None:
    wanted = required(given)
    found = exact.solution(wanted, WHOLE, LIKELY)
    assert (found is not None) == is_possible
    assert found is None or all(one.is_met(found, {}) for one in wanted)


def test_what_is_neither_found_nor_disproved_is_said_to_be() -> None:
    with pytest.raises(exact.UndecidedError):
        exact.solution(required({"a*a - 2*b*b": 3}), WHOLE, LIKELY)


def test_what_has_no_solution_is_proven_beside_what_is_undecided() -> None:
    assert exact.solution(required({"a*a - 2*b*b": 3, "2*c + 0": 7}), WHOLE, LIKELY) is None
