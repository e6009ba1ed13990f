"""Cells that are not expected to be the fastest are left out where open questions would lose some of their time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.measure import rounds
from bench.measure.ledgers import Group
from bench.pipeline import sweep as module
from bench.pipeline import time_left
from bench.pipeline import waves as pipeline_waves
from bench.pipeline.flow import Prepared
from bench.records.lines import Quality
from support.fake_place import FakePlace, sweeps_of

SPEEDS = dict.fromkeys("abcdefg", 400)


class Clock:
    """A clock that stands still but for verification, and for measuring.

    Attributes:
        cell_s: the time to verify a cell without a stored quality.
        launch_s: the time of the first launch of a cell.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = self.cell_s = self.launch_s = 0.0
        fake = SimpleNamespace(monotonic=lambda: self.now_s)
        monkeypatch.setattr(module, "time", fake)
        monkeypatch.setattr(time_left, "time", fake)
        verify = FakePlace.verify

        def slowly(place: FakePlace, cells: Sequence[Prepared], known: Mapping[str, Quality], *arguments: Any) -> None:
            self.now_s += self.cell_s * sum(value.key not in known for value in cells)
            verify(place, cells, known, *arguments)

        monkeypatch.setattr(FakePlace, "verify", slowly)
        measure = rounds.measure

        def launched(groups: Sequence[Group], *arguments: Any, **options: Any) -> None:
            self.now_s += self.launch_s * sum(not each.launches for group in groups for each in group.ledgers)
            measure(groups, *arguments, **options)

        monkeypatch.setattr(rounds, "measure", launched)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs a sweep of variants in waves, and gives its steps."""
    return sweeps_of(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("cell_s", "left_out"),
    [
        pytest.param(10.0, "", id="a fast machine"),
        pytest.param(
            25.0, "defg", id="75 s are left: 13 for open questions, 15 to verify contenders, and 25 for each cell"
        ),
        pytest.param(60.0, "cdefg", id="the three cells that are needed took 180 s"),
    ],
)
def test_what_gains_little_is_left_out_where_open_questions_would_lose_some_of_their_time(
    swept: Any, clock: Clock, cell_s: float, left_out: str
) -> None:
    """Of 150 s measuring has 20; there is always time for the three cells that a decision needs."""
    clock.cell_s = cell_s
    swept([["raw", "a", "b"]], spare="cdefg", speeds=SPEEDS, ends_s=150.0, budget_s=20.0)
    assert "".join(each.variant for each in swept.left_out) == left_out
    assert swept.told.standings == [(8 - len(left_out), 8)]


def test_what_was_left_out_is_added_where_the_rest_is_stored_already(
    swept: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pace of what is stored says nothing of the others, so the sweep looks again after a portion of them."""
    monkeypatch.setattr(module, "PORTION", 2)
    clock.cell_s = 60.0
    for left_out in ("cdefg", "efg", "g"):
        swept([["raw", "a", "b"]], spare="cdefg", speeds=SPEEDS, ends_s=clock.now_s + 150.0, budget_s=20.0)
        assert "".join(each.variant for each in swept.left_out) == left_out


def test_first_launches_of_what_gains_little_take_none_of_the_time_for_open_questions(swept: Any, clock: Clock) -> None:
    """The first wave shows that a launch takes 30 s.

    Of 350 s the first wave took 80 and the needed cell 10; 60 are for open questions, 30 for its launch and 6 to verify
    contenders. So 164 are left, and each spare cell takes 40.
    """
    clock.cell_s, clock.launch_s = 10.0, 30.0
    swept([["raw", "a"], ["b"]], spare="cdefg", speeds=SPEEDS, ends_s=350.0, budget_s=90.0)
    assert "".join(each.variant for each in swept.left_out) == "g"


@pytest.mark.parametrize(("whole_s", "left_out"), [(200.0, ""), (50.0, "abslow")])
def test_what_compiles_for_long_is_left_out_where_spare_cells_were(
    swept: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch, whole_s: float, left_out: str
) -> None:
    """Half of the whole time is kept for measuring at most, although the budget is as long as that."""
    monkeypatch.setattr(
        pipeline_waves, "compiling_s", lambda cells: 0.1 * sum(each.variant == "slow" for each in cells)
    )
    clock.cell_s = 10.0
    waves = [["raw", "fast"], ["slow"]]
    swept(waves, spare="ab", spare_of=0, speeds=SPEEDS, ends_s=whole_s, budget_s=whole_s)
    assert "".join(each.variant for each in swept.left_out) == left_out
