"""What is said of a cell that two folders of results have, besides its latency."""

from __future__ import annotations

import pytest

from bench.features.compare import render as compare
from bench.features.compare.changes import Change
from support import rows


@pytest.mark.parametrize(("before", "after", "is_told"), [(None, None, True), (64, 64, True), (64, None, False)])
def test_figures_of_other_samples_of_a_split_are_no_change(
    before: int | None, after: int | None, is_told: bool
) -> None:
    one, other = (
        rows.make(rows.FAST.cell, metric_name="accuracy", metric=metric, metric_samples=number, fidelity=fidelity)
        for metric, number, fidelity in ((0.9, before, "close"), (0.8, after, "drifted"))
    )
    told = compare._otherwise(Change(cell=one.cell, before=one, after=other))
    assert [name for name, *_ in told] == (["fidelity", "accuracy"] if is_told else [])
