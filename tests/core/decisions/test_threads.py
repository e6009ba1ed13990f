"""The best number of threads: each cell against itself at one thread."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import asdict

from bench.api.errors import InputError
from bench.api.names import PluginName, TaskName
from bench.decisions import threads as scalability
from bench.decisions.threads import Scaling
from bench.measure.comparison import CELL, CONTROL, REFERENCE
from bench.records import assemble
from bench.records.lines import ThreadLaunch
from bench.records.store import Record
from bench.report import threads
from support import known
from support import records as made

ONE = "toy/null/native/raw/null/cpu/b4t1"
BLOCKS = {
    f"{name}{number}": ns for number in range(4) for name, ns in (("a", 1_000_000), ("b", 2_000_000), ("c", 1_500_000))
}


def records(noise: float = 0.0, **factors: float) -> dict[str, Record]:
    """A cell at one thread, and its latency over that at others, one block for each launch; `t2=0.5`."""

    def lines(path: str, name: str, ns: float, *roles: str) -> list[Any]:
        return [ThreadLaunch(**asdict(made.launch(name, role, round(ns), reference=ONE))) for role in roles]

    found = {ONE: [line for name, ns in BLOCKS.items() for line in lines(ONE, name, ns, REFERENCE, CONTROL)]}
    for count, factor in factors.items():
        path = ONE.replace("t1", count)
        wobble = [1 - noise, 1.0, 1 + noise] * 4
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


def best_of(ratios: Mapping[int, float], errors: Mapping[int, float] | float) -> tuple[int, ...]:
    """Of numbers of threads, by their latency over that at one thread and its standard error."""
    each = errors if isinstance(errors, Mapping) else dict.fromkeys(ratios, errors)
    names = {str(count): ratio for count, ratio in ratios.items()}
    fitted = known.fitted(names, {str(count): error for count, error in each.items()})
    return scalability._best(fitted, list(ratios), 0.02)


def test_fewer_threads_that_may_be_as_good_are_named() -> None:
    """4 are the fastest and 2 as good; whether 1 is cannot be said."""
    assert best_of({1: 1.0, 2: 0.98, 4: 0.979}, {1: 0.02, 2: 0.001, 4: 0.001}) == (1, 2)
    assert best_of({1: 1.0, 2: 0.9, 4: 0.899}, {1: 0.02, 2: 0.001, 4: 0.001}) == (2,)
    assert best_of({1: 1.0, 2: 0.999, 4: 0.999}, 0.001) == (1,)


def test_gain_below_the_margin_is_not_worth_a_thread() -> None:
    assert best_of({1: 1.0, 2: 0.999}, 0.001) == (1,)
    assert best_of({1: 1.0, 2: 0.5, 4: 0.499}, 0.001) == (2,)


def test_more_threads_that_may_be_faster_are_named() -> None:
    assert best_of({1: 1.0, 2: 0.5, 4: 0.501}, {1: 0.01, 2: 0.01, 4: 0.01}) == (2, 4)
    assert best_of({1: 1.0, 2: 0.5, 4: 0.7}, {1: 0.01, 2: 0.01, 4: 0.01}) == (2,)


def test_latency_by_threads_is_that_of_the_usual_block() -> None:
    found = scaling(t2=0.5)
    usual = (1_000_001 * 2_000_001 * 1_500_001) ** (1 / 3)
    assert found.latency_ns == {1: pytest.approx(usual), 2: pytest.approx(usual / 2, rel=1e-4)}
    assert {count: compared.num_launches for count, compared in found.over_one.items()} == {2: 12}


def test_each_number_of_threads_is_a_program_of_its_own() -> None:
    """The machine slowed two threads alone in one block: launches that differ by so much are no basis for a verdict."""
    quiet, wobbling = scaling(t2=0.97), scaling(noise=0.1, t2=0.97)
    effects = [found.over_one[2].effect for found in (quiet, wobbling)]
    assert effects[0] is not None
    assert effects[1] is not None
    assert effects[1].half_width() > 1.5 * effects[0].half_width()
    assert wobbling.best == (1, 2)


def test_table_has_latency_throughput_and_the_best() -> None:
    text = threads.render(scalability.scalings(records(t2=0.5), margin=0.02), format="md")
    header, _, line = text.splitlines()
    assert header == r"| cell | 1 thread (ms) | 2 threads / 1 thread [95 %] | most per second | best |"
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:2] == ["toy/null/native/raw/null/cpu, batch 4", "1.442"]
    assert cells[2].startswith("0.500 [")
    assert float(cells[3].replace(",", "")) == pytest.approx(4 / (0.001442 / 2), rel=0.01)
    assert cells[4] == "2 threads"


def test_table_for_80_columns_breaks_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (one,) = scalability.scalings(records(t2=0.5), margin=0.02)
    cell = dataclasses.replace(
        one.cell, task=TaskName("own_encoder"), source="onnx", runtime=PluginName("onnxruntime_iobinding")
    )
    text = threads.render([dataclasses.replace(one, cell=cell)], format="table")
    lines = [line.rstrip() for line in text.splitlines()]
    assert max(map(len, lines)) <= 80
    first = next(number for number, line in enumerate(lines) if line.startswith("─")) + 1
    names = [line.split("  ")[0] for line in lines[first:]]
    assert "".join(names) == "own_encoder/onnx/native/raw/onnxruntime_iobinding/cpu,batch 4"
    assert all(name.endswith(("/", ",", "batch 4")) for name in names)
    assert "1.442" in text
    assert "0.500" in text


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
