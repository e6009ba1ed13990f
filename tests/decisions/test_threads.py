"""The best number of threads: each cell against itself at one thread."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import asdict

from bench.api.errors import InputError
from bench.decisions import threads as scalability
from bench.decisions.threads import Scaling
from bench.measure.comparison import CELL, CONTROL, REFERENCE, Comparison
from bench.measure.stats import Effect, Error, Estimate
from bench.records import assemble
from bench.records.lines import ThreadLaunch
from bench.records.store import Record
from bench.report import threads
from support import records as made

ONE = "toy/null/native/raw/null/cpu/b4t1"
BLOCKS = {"a": 1_000_000, "b": 2_000_000, "c": 1_500_000}


def records(noise: float = 0.0, **factors: float) -> dict[str, Record]:
    """A cell at one thread, and its latency over that at others, one block for each launch; `t2=0.5`."""

    def lines(path: str, name: str, ns: float, *roles: str) -> list[Any]:
        return [ThreadLaunch(**asdict(made.launch(name, role, round(ns), reference=ONE))) for role in roles]

    found = {ONE: [line for name, ns in BLOCKS.items() for line in lines(ONE, name, ns, REFERENCE, CONTROL)]}
    for count, factor in factors.items():
        path = ONE.replace("t1", count)
        wobble = [1 - noise, 1.0, 1 + noise]
        found[path] = []
        for (name, ns), more in zip(BLOCKS.items(), wobble, strict=True):
            found[path] += lines(path, name, ns * factor * more, CELL)
    return {path: made.record(path, *launches) for path, launches in found.items()}


def scaling(noise: float = 0.0, **factors: float) -> Scaling:
    (found,) = scalability.scalings(records(noise, **factors), margin=0.02)
    return found


@pytest.mark.parametrize(
    ("factors", "best"),
    [
        ({"t2": 0.5}, (2,)),
        ({"t2": 1.5}, (1,)),
        ({"t2": 0.5, "t4": 0.3}, (4,)),
        ({"t2": 0.5, "t4": 0.9}, (2,)),
        ({"t2": 0.999}, (1,)),  # a gain below the margin is not worth a thread
        ({"t2": 0.5, "t4": 0.499}, (2,)),
    ],
)
def test_best_number_of_threads(factors: dict[str, float], best: tuple[int, ...]) -> None:
    found = scaling(**factors)
    assert found.best == best
    for name, factor in factors.items():
        ratio = found.over_one[int(name[1:])].ratio
        assert ratio is not None
        assert ratio.value == pytest.approx(factor, rel=0.01)


def test_numbers_that_cannot_be_told_apart_are_all_named() -> None:
    assert scaling(noise=0.3, t2=0.95).best == (1, 2)


def known(half: float) -> Error:
    return Error(across=half / 1.96, freedom=math.inf, within=0.0, launches=3)


def test_fewer_threads_that_may_be_as_good_are_named() -> None:
    """4 are the fastest and 2 as good; whether 1 is cannot be said."""
    found = {
        count: Comparison(
            effect=Effect(
                value=math.log(ratio), errors=(Error(across=half / 1.96, freedom=math.inf, within=0.0, launches=3),)
            ),
            control=Estimate(value=1, low=0.999, high=1.001),
            num_launches=3,
        )
        for count, ratio, half in ((2, 0.999, 0.001), (4, 0.99, 0.09))
    }
    assert scalability._verdict(found, 1, 4, 0.02) == "undecided"
    assert scalability._best(found, 0.02) == (1, 2, 4)
    found[4] = Comparison(effect=found[2].effect, control=found[2].control, num_launches=3)
    assert scalability._best(found, 0.02) == (1,)


def test_table_has_latency_throughput_and_the_best() -> None:
    text = threads.render(scalability.scalings(records(t2=0.5), margin=0.02), format="md")
    header, _, line = text.splitlines()
    assert header == r"| cell | 1 thread (ms) | 2 threads / 1 thread [95 %] | most per second | best |"
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:2] == ["toy/null/native/raw/null/cpu, batch 4", "1.5"]
    assert cells[2].startswith("0.500 [")
    assert float(cells[3]) == pytest.approx(4 / 0.00075, rel=0.01)
    assert cells[4] == "2 threads"


def test_these_launches_stay_out_of_the_other_tables() -> None:
    """There, a cell stands beside its task's baseline at as many threads."""
    for row in assemble.rows(records(t2=0.5)):
        assert (row.latency_p50_ns, row.ratio, row.num_launches, row.status) == (None, None, 0, "ok")


def test_nothing_to_show_says_what_would_measure_it() -> None:
    assert scalability.scalings(records(), margin=0.02) == []
    with pytest.raises(InputError, match="bench run --sweep threads"):
        threads.render([], format="md")
    with pytest.raises(InputError, match="md or table, not csv"):
        threads.render([scaling(t2=0.5)], format="csv")
