"""The sentences on how noisy the machine was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench.measure.comparison import CELL
from bench.records import assemble, noise
from bench.records.measurements import Measurements
from support import records as made


def said(widening: float, blocks: str = "abcd", **lost: float) -> str:
    launches = [made.launch(block, CELL, 500, **lost) for block in blocks]
    record = made.record(made.HALVE, *launches)
    rows = [row for row in assemble.rows({made.BASELINE: made.baseline(), made.HALVE: record}) if row.num_launches]
    stands: Any = SimpleNamespace(
        widening={made.HALVE: widening}, records={made.BASELINE: made.baseline(), made.HALVE: record}
    )
    return noise.said(stands, rows)


@pytest.mark.parametrize(
    ("widening", "words"),
    [
        (2.31, "The machine was noisy: intervals are 2.3 times as wide as on an idle machine."),
        (1.42, "The machine was noisy: intervals are 1.4 times as wide as on an idle machine."),
        (1.38, "The machine was quiet: intervals are about as wide as on an idle machine."),
        (0.5, "The machine was quiet: intervals are about as wide as on an idle machine."),
    ],
)
def test_what_the_noise_cost(widening: float, words: str) -> None:
    assert said(widening) == words


def test_of_few_launches_the_cost_is_that_of_not_knowing() -> None:
    assert said(1.5, "abc") == (
        "So few launches do not tell how noisy the machine was: "
        "intervals are 1.5 times as wide as on one that is known to be idle."
    )


def test_what_others_took() -> None:
    told = said(2.0, run_delay_share=0.1, steal_share=0.02)
    assert told.endswith(" Other programs and other virtual machines took 12 % of the time of its launches.")
    assert "Other programs" not in said(2.0, run_delay_share=0.004)


def test_without_a_comparison_nothing_is_said() -> None:
    records = {made.BASELINE: made.baseline()}
    assert noise.said(Measurements(records), assemble.rows(records)) == ""


def test_real_measurements_have_a_widening_for_each_cell_but_the_baseline() -> None:
    records = {made.BASELINE: made.baseline(), made.HALVE: made.record(made.HALVE, made.launch("a", CELL, 500))}
    assert Measurements(records).widening.keys() == {made.HALVE}
