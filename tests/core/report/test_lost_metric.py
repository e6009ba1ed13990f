"""Losses of the metric in tables and sentences: their unit, their bound, and what the bound takes for granted."""

from __future__ import annotations

import dataclasses

import pytest

from bench.measure.comparison import CELL
from bench.records import assemble
from bench.records.metric_loss import Lost
from bench.report import outcome
from bench.report.tables import render
from support import records as made
from support.rows import FAST


def test_a_loss_in_db_has_its_unit_and_the_convention_beside_the_bound() -> None:
    in_db = dataclasses.replace(
        FAST,
        metric_loss=0.04,
        metric_loss_high=0.0457,
        metric_loss_unit="dB",
        convention="a photograph is taken to lose at most 1 dB",
    )
    text = render([in_db], format="md")
    assert "| max drop (dB) |" in text
    assert " 0.0457 |" in text
    assert (
        "Max drop: the most dB of the metric that may be lost, with 95 % confidence; by convention, a photograph "
        in text
    )
    assert "| max drop (%) |" in render([FAST], format="md")
    assert outcome.metric_bound(in_db) == "at most 0.046 dB worse if a photograph is taken to lose at most 1 dB"
    assert outcome.metric_change(in_db) == "0.04 dB worse"


AT_MOST_1 = "a photograph is taken to lose at most 1 dB"
NO_WORSE = "no sample loses more than the largest loss that was measured"


@pytest.mark.parametrize(
    ("largest_db", "taken"),
    [(-0.5, AT_MOST_1), (0.9, AT_MOST_1), (1.0, AT_MOST_1), (1.001, NO_WORSE), (4.95, NO_WORSE)],
)
def test_a_convention_is_told_only_where_no_sample_lost_more(largest_db: float, taken: str) -> None:
    """The bound is then by the largest loss, whatever the convention says."""
    lost = Lost(num_samples=64, score=1.0, most=1.0, points=((3, largest_db), (5, 0.1)))
    in_db = made.quality(metric_loss=lost.mean, metric_loss_unit="dB", lost=lost, convention=AT_MOST_1)
    record = made.record(made.HALVE, made.launch("a", CELL, 1000), quality=in_db)
    (row,) = assemble.rows({made.HALVE: record})
    assert row.convention == taken
    assert outcome.metric_bound(row) == f"at most {lost.high():.2g} dB worse if {taken}"
    text = " ".join(render([row], format="md").split())
    assert f"with 95 % confidence; by convention, {taken}. " in text


def test_what_follows_from_the_metric_takes_nothing_for_granted() -> None:
    lost = Lost(num_samples=64, score=0.5, most=1.0, points=((3, 2.0),))
    record = made.record(made.HALVE, quality=made.quality(metric_loss=lost.mean, lost=lost))
    assert assemble.rows({made.HALVE: record})[0].convention is None
