"""Stages of the test suite: each test is run by one of them, and `make test` leaves out none but the thorough ones."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

ROOT = Path(__file__).parents[2]
STAGE = re.compile(r"-m pytest -m '([^']+)' (.*?) \|\|")


def text() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def recipe(target: str) -> list[str]:
    """The commands of a target of the Makefile."""
    after = text().partition(f"\n{target}: install")[2].splitlines()[1:]
    return [*itertools.takewhile(lambda line: line.startswith("\t"), after)]


def stages(target: str) -> list[tuple[str, str]]:
    """Which marks the runs of pytest of a target ask for, and their further arguments."""
    return STAGE.findall("\n".join(recipe(target)))


def running(target: str, marks: set[str]) -> Iterator[str]:
    """The stages of a target that run a test with these marks."""
    for expression, _ in stages(target):
        if Expression.compile(expression).evaluate(lambda name, **_: name in marks):
            yield expression


@pytest.mark.parametrize("others", [set(), {"framework"}, {"slow", "xdist_group"}])
@pytest.mark.parametrize("timing", [set(), {"timing"}])
def test_make_test_leaves_out_nothing_but_thorough_tests(timing: set[str], others: set[str]) -> None:
    assert len([*running("test", timing | others)]) == 1
    assert [*running("test-all", timing | others)] == []
    assert [*running("test", timing | others | {"thorough"})] == []
    assert len([*running("test-all", timing | others | {"thorough"})]) == 1


@pytest.mark.parametrize("target", ["test", "test-all"])
def test_what_measures_time_has_the_machine_to_itself(target: str) -> None:
    shared, alone = stages(target)
    assert "not timing" in shared[0]
    assert shared[1] == "$(SHARED)"
    assert "not timing" not in alone[0]
    assert alone[1] == "$$($(TIMED))"


def test_make_test_says_that_there_are_more() -> None:
    assert "echo 'make test-all runs the thorough tests" in recipe("test")[-1]


@pytest.mark.parametrize("line", ["@pytest.mark.timing", "pytestmark = [pytest.mark.timing]", "marks=mark.timing)"])
def test_files_with_what_measures_time_are_found_by_its_mark(line: str) -> None:
    """The alone stage reads no other; a test whose file has not this text is refused when it is collected."""
    pattern = re.search(r"^TIMED := grep -rl --include='test_\*\.py' '(.+)' tests$", text(), re.MULTILINE)
    assert pattern is not None
    assert re.search(pattern[1], line)
    assert not re.search(pattern[1], "timing = mark.slow")


def test_make_bench_verifies_whole_splits_where_it_is_asked_to() -> None:
    (line,) = (line for line in recipe("bench") if "$(RUN) run " in line)
    assert "$(if $(WHOLE),--whole-split)" in line
    assert "--total $(TOTAL)" in line
