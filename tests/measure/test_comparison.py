"""Comparison: launches meet by block, never across blocks."""

from __future__ import annotations

import math

import pytest

from bench.measure import comparison
from bench.measure.comparison import CELL, CONTROL, REFERENCE, Comparison
from bench.measure.launch import Launch
from bench.measure.stats import Effect, Error, Estimate
from support import records as made

PASSES = 6


def launch(block: str, role: str, ns: int) -> Launch:
    return made.launch(block, role, ns, steady_ns=((ns, ns, 9 * ns),) * PASSES)


def baseline(**speeds: int) -> list[Launch]:
    """Blocks by name, each with the machine's speed at that time."""
    blocks = speeds or {"a": 1000, "b": 2000}
    return [launch(block, role, ns) for block, ns in blocks.items() for role in (REFERENCE, CONTROL)]


def test_median_of_each_pass() -> None:
    found = made.launch("a", CELL, 1, steady_ns=((3, 1, 2), (10,), (4, 5)))
    assert found.medians_ns == (2.0, 10.0, 4.5)


def test_a_launch_meets_the_reference_of_its_own_block() -> None:
    """Block b ran on a machine twice as slow; the ratio does not see it."""
    found = comparison.against_baseline([launch("a", CELL, 500), launch("b", CELL, 1000)], baseline())
    assert found.num_launches == 2
    assert found.ratio is not None
    assert [found.ratio.value, found.ratio.low, found.ratio.high] == pytest.approx([0.5] * 3)
    assert found.control is not None
    assert [found.control.low, found.control.high] == pytest.approx([1.0, 1.0])
    assert found.verdict(0.02) == "faster"


def test_launch_of_a_block_that_the_baseline_lost_does_not_count() -> None:
    launches = [launch("a", CELL, 500), launch("gone", CELL, 9999)]
    found = comparison.against_baseline(launches, baseline())
    assert found.num_launches == 1
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.5)
    assert comparison.against_baseline(launches[1:], baseline()).ratio is None


def test_no_common_block_no_verdict() -> None:
    found = comparison.against_baseline([], baseline())
    assert (found.ratio, found.num_launches, found.verdict(0.02)) == (None, 0, None)
    assert comparison.against_baseline([], []) == Comparison(effect=None, control=None, num_launches=0)


def test_controls_are_twins_of_references_of_the_same_block() -> None:
    lines = [
        launch("a", REFERENCE, 1000),
        launch("a", CONTROL, 1010),
        launch("b", REFERENCE, 7),
        launch("c", CONTROL, 7),
    ]
    (pairs,) = comparison.controls(lines)
    assert pairs.cell_ns == (1010.0,) * PASSES
    assert pairs.reference_ns == (1000.0,) * PASSES


def test_control_widens_with_the_noise() -> None:
    lines = baseline(a=1000, b=1000)
    lines[1] = launch("a", CONTROL, 1050)
    lines[3] = launch("b", CONTROL, 950)
    found = comparison.against_baseline([launch("a", CELL, 1030), launch("b", CELL, 1030)], lines)
    assert found.control is not None
    assert found.control.low < 0.95 < 1.05 < found.control.high
    assert found.verdict(0.02) == "undecided"


def test_baseline_against_itself_is_the_control() -> None:
    lines = baseline(a=1000, b=2000)
    lines[1] = launch("a", CONTROL, 1010)
    found = comparison.against_baseline(lines, lines)
    assert found.num_launches == 2
    assert found.ratio == found.control
    assert found.ratio is not None
    assert math.log(found.ratio.value) == pytest.approx(math.log(1.01) / 2)


def test_baseline_whose_block_was_cut_short_has_no_ratio() -> None:
    lines = [launch("a", REFERENCE, 1000)]
    assert comparison.against_baseline(lines, lines) == Comparison(effect=None, control=None, num_launches=0)


def test_between_two_cells_of_the_same_blocks_is_direct() -> None:
    """Their common noise cancels: both are twice as slow in b than the baseline says."""
    one = [launch("a", CELL, 600), launch("b", CELL, 2400)]
    other = [launch("a", CELL, 500), launch("b", CELL, 2000)]
    found = comparison.between(one, other, baseline(a=1000, b=1000))
    assert found.num_launches == 2
    assert found.ratio is not None
    assert [found.ratio.value, found.ratio.low, found.ratio.high] == pytest.approx([1.2] * 3)


def test_between_two_cells_of_other_blocks_goes_through_the_baseline() -> None:
    one = [launch("a", CELL, 600), launch("b", CELL, 600)]
    other = [launch("c", CELL, 2000), launch("d", CELL, 2000), launch("b", CELL, 500)]
    lines = baseline(a=1000, b=1000, c=4000, d=4000)
    found = comparison.between(one, other, lines)
    assert found.num_launches == 2  # one common block is too few
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.6 / 0.5)


def test_between_a_cell_and_the_baseline_is_its_ratio() -> None:
    lines = baseline()
    cells = [launch("a", CELL, 500), launch("b", CELL, 1000)]
    found = comparison.between(cells, lines, lines)
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.5)
    back = comparison.between(lines, cells, lines)
    assert back.ratio is not None
    assert back.ratio.value == pytest.approx(2.0)
    own = comparison.between(lines, lines, lines)
    assert own.ratio is not None
    assert own.ratio.value == pytest.approx(1.0)


def test_between_cells_that_were_never_compared() -> None:
    found = comparison.between([launch("x", CELL, 1)], [launch("a", CELL, 1)], baseline())
    assert (found.ratio, found.num_launches) == (None, 0)
    assert found.control is not None


def test_change_from_one_run_to_another_is_that_of_the_ratios() -> None:
    """The machine is four times as slow in the second run, and the cell 20 % slower against its baseline."""
    before = comparison.against_baseline([launch("a", CELL, 500), launch("b", CELL, 1000)], baseline())
    after = comparison.against_baseline(
        [launch("c", CELL, 2400), launch("d", CELL, 4800), launch("e", CELL, 4800)], baseline(c=4000, d=8000, e=8000)
    )
    found = comparison.change(after, before)
    assert found.num_launches == 2, "the fewer of both runs"
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.6 / 0.5)
    assert found.verdict(0.02) == "slower"


def test_change_has_the_noise_of_both_controls() -> None:
    effect = Effect(value=0.0, errors=(Error(across=0.01, freedom=4, within=0.0, launches=3),))
    before, after = (
        Comparison(effect=effect, control=Estimate(value=value, low=value * low, high=value / low), num_launches=3)
        for value, low in ((1.25, math.exp(-0.03)), (1.0, math.exp(-0.04)))
    )
    control = comparison.change(after, before).control
    assert control is not None
    assert [control.value, control.low, control.high] == pytest.approx(
        [0.8, 0.8 * math.exp(-0.05), 0.8 * math.exp(0.05)]
    )


def test_change_without_an_interval_or_a_ratio() -> None:
    known = comparison.against_baseline([launch("a", CELL, 500), launch("b", CELL, 1000)], baseline())
    endless = Comparison(effect=known.effect, control=Estimate(value=1.0, low=0.0, high=math.inf), num_launches=1)
    control = comparison.change(known, endless).control
    assert control is not None
    assert (control.low, control.high) == (0.0, math.inf)
    missing = Comparison(effect=None, control=None, num_launches=0)
    assert comparison.change(known, missing) == missing
    assert comparison.change(missing, known) == missing
