"""What a sweep asks of its cells besides which is the fastest."""

from __future__ import annotations

import time

import pytest

from bench.cli.run_cells import Choice
from bench.measure.goal import Goal
from bench.measure.questions import Aims
from bench.pipeline.sweep_options import Options


@pytest.mark.parametrize(("sweep", "every_gain"), [("web", True), ("full", False), ("threads", False), (None, False)])
def test_the_sweep_web_alone_asks_for_every_gain(sweep: str | None, every_gain: bool) -> None:
    """The other aims stay those of the options."""
    choice = Choice(cells=[], budget_s=60.0, began_s=time.monotonic())
    settings = Options(goal=Goal(aims=Aims(margin=0.04)))
    aims = choice.timed(settings, sweep, None).goal.aims
    assert aims == Aims(margin=0.04, every_gain=every_gain)
