"""The model fitted to records: which of them are compared with which."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import pytest

from bench.measure.comparison import CELL, CONTROL, REFERENCE, Comparison
from bench.measure.launch import Launch
from bench.records.measurements import Measurements
from bench.records.store import Record
from support import records as made

BASELINE, HALVE, PRUNE, OTHER_GROUP = made.BASELINE, made.HALVE, made.PRUNE, made.OTHER_GROUP
launch, record, baseline = made.launch, made.record, made.baseline
TIME = "2026-01-01T00:00:00+00:00"


def fitted(*records: Record) -> Measurements:
    return Measurements({item.cell.path: item for item in records})


def ratio(found: Comparison | None) -> float:
    assert found is not None
    assert found.effect is not None
    return math.exp(found.effect.value)


def test_cells_beside_one_baseline_are_compared() -> None:
    found = fitted(baseline(), record(HALVE, launch("a", CELL, 499)), record(PRUNE, launch("b", CELL, 3999)))
    assert ratio(found.between(HALVE, BASELINE)) == pytest.approx(500 / 1001)
    assert ratio(found.between(HALVE, PRUNE)) == pytest.approx(500 / 1001 / (4000 / 2001))
    group = found.of(HALVE)
    assert group is not None
    assert group is found.of(BASELINE) is found.of(PRUNE)
    assert group.baseline == BASELINE
    assert dict(group.num_launches) == {BASELINE: 2, HALVE: 1, PRUNE: 1}


def test_cells_beside_two_baselines_are_not() -> None:
    found = fitted(baseline(), record(HALVE, launch("a", CELL, 500)), baseline(OTHER_GROUP, c=100))
    assert found.between(HALVE, OTHER_GROUP) is None
    assert found.between(OTHER_GROUP, HALVE) is None
    assert found.of(OTHER_GROUP) is not found.of(HALVE)


def test_latest_launch_says_which_baseline_a_cell_is_compared_with() -> None:
    """Once beside OTHER_GROUP, now beside BASELINE; the first launch counts no more."""
    moved = record(HALVE, launch("c", CELL, 50, reference=OTHER_GROUP), launch("a", CELL, 499))
    found = fitted(baseline(), baseline(OTHER_GROUP, c=100), moved)
    assert ratio(found.between(HALVE, BASELINE)) == pytest.approx(500 / 1001)
    group = found.of(HALVE)
    assert group is not None
    assert group.num_launches[HALVE] == 1


@pytest.mark.parametrize(
    "records",
    [
        [record(HALVE, launch("a", CELL, 500))],
        [record(HALVE, launch("a", CELL, 500)), record(BASELINE)],
        [record(HALVE, launch("a", CELL, 500)), baseline(c=1000)],
        [record(HALVE), baseline()],
        [baseline()],
    ],
)
def test_cell_that_was_not_timed_beside_its_baseline_has_no_group(records: list[Record]) -> None:
    """Its baseline is lost, was never timed, or has changed; or the cell was never timed, or is not there."""
    found = fitted(*records)
    assert found.of(HALVE) is None
    assert found.between(HALVE, BASELINE) is None
    assert found.between(BASELINE, HALVE) is None


def test_no_records_no_groups() -> None:
    assert Measurements({}).of(HALVE) is None


def test_records_share_what_is_known_of_a_program() -> None:
    """A cell of another group with launches that differ by 10 % widens the interval of a cell with a single one."""
    single = [baseline(OTHER_GROUP, c=1000), record(PRUNE, launch("c", CELL, 500, reference=OTHER_GROUP))]
    widths = []
    for wobble in (0.0, 0.1):
        blocks = dict.fromkeys("defghijk", 1_000_000)
        lines = [
            launch(block, CELL, round(ns * (1 + wobble * (-1) ** index)))
            for index, (block, ns) in enumerate(blocks.items())
        ]
        compared = fitted(*single, baseline(**blocks), record(HALVE, *lines)).between(PRUNE, OTHER_GROUP)
        assert compared is not None
        assert compared.effect is not None
        widths.append(compared.effect.half_width())
    assert widths[1] > 1.5 * widths[0]


def test_runtimes_of_the_same_packages_share_the_machines_states() -> None:
    """Six launches within a minute that agree to a thousandth tell nothing of states that last for ten minutes.

    Two runtimes of a package differ by smaller states of their own, and cells of one runtime by none.
    """
    times = {name: 1_000_000 + 300 * number for number, name in enumerate("defghi")}

    def launches(*roles: str) -> list[Launch]:
        return [launch(block, role, ns, time=TIME) for block, ns in times.items() for role in roles]

    widths = {}
    for runtime, packages in (("null", "engine"), ("null2", "engine"), ("null2", "another")):
        beside = with_versions(record(HALVE.replace("/null/cpu", f"/{runtime}/cpu"), *launches(CELL)), packages)
        compared = fitted(
            with_versions(record(BASELINE, *launches(REFERENCE, CONTROL)), "engine"),
            beside,
        ).between(beside.cell.path, BASELINE)
        assert compared is not None
        assert compared.effect is not None
        widths[runtime, packages] = compared.effect.half_width()
    assert widths["null", "engine"] < 0.02
    assert widths["null2", "engine"] > 2 * widths["null", "engine"]
    assert widths["null2", "another"] > 1.4 * widths["null2", "engine"]


def with_versions(found: Record, package: str) -> Record:
    versions = {"python": "3.11.1", package: "1.0"}
    return dataclasses.replace(found, header=msgspec.structs.replace(found.header, versions=versions))


def test_what_a_search_tries_changes_no_figure_of_another_task() -> None:
    """Launches that differ by 10 % from one another would widen the intervals of all cells of that runtime."""
    own = [baseline(), record(HALVE, launch("a", CELL, 499), launch("b", CELL, 1001))]
    tried = BASELINE.replace("toy/", "other~tuning/")
    launches = [launch(block, CELL, ns, reference=tried) for block, ns in (("c", 500), ("d", 610), ("e", 480))]
    searched = [baseline(tried, c=1000, d=1000, e=1000), record(HALVE.replace("toy/", "other~tuning/"), *launches)]
    alone, beside = fitted(*own).between(HALVE, BASELINE), fitted(*own, *searched).between(HALVE, BASELINE)
    assert alone is not None
    assert beside is not None
    assert alone.effect == beside.effect
    assert ratio(fitted(*own, *searched).between(searched[1].cell.path, tried)) == pytest.approx(0.53, rel=0.1)
