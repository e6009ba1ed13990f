"""The policy of a sweep: how long it measures."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from bench.measure.goal import Goal
from bench.pipeline.sweep import Sweep
from bench.pipeline.sweep_options import Options


@pytest.mark.parametrize(
    ("now_s", "ends_s", "budget_s"),
    [
        pytest.param(10.0, 100.0, 30.0, id="preparing was fast"),
        pytest.param(80.0, 100.0, 20.0, id="preparing took long"),
        pytest.param(300.0, 100.0, 10.0, id="preparing took everything"),
        pytest.param(300.0, None, 30.0, id="the budget was asked for"),
    ],
)
def test_measuring_gets_the_time_that_preparing_left(
    monkeypatch: pytest.MonkeyPatch, now_s: float, ends_s: float | None, budget_s: float
) -> None:
    sweep = Sweep(cast(Any, None), Options(goal=Goal(budget_s=30.0), ends_s=ends_s), cast(Any, None))
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    assert sweep._goal().budget_s == budget_s


def test_no_budget_is_no_limit() -> None:
    assert Sweep(cast(Any, None), Options(goal=Goal(), ends_s=0.0), cast(Any, None))._goal().budget_s is None
