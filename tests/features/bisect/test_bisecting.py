"""Bisection of releases: which are measured, which are left out, and what is said."""

from __future__ import annotations

import itertools
import math
import types
from typing import cast

import pytest

from bench.api.cell import Cell
from bench.api.errors import BenchError, InputError
from bench.features.bisect import bisecting as bisect
from bench.features.bisect import render as report
from bench.features.bisect.bisecting import Bisected, Releases
from bench.measure.block import Method
from bench.measure.comparison import Comparison
from bench.measure.limits import Limits
from bench.measure.stats import Effect
from bench.pipeline import slowdown
from bench.pipeline.flow import Verified

CELL = Cell.from_path("toy/null/native/raw/demo/cpu/b1t1")
NAMES = tuple(f"1.{minor}" for minor in range(9))


class Fakes:
    """Releases of which one brings a slowdown and other outputs, and some cannot be installed."""

    def __init__(self, first_bad: str, missing: tuple[str, ...] = (), slower: float = 0.05, error: float = 0.004):
        self._first_bad, self._missing, self._slower = NAMES.index(first_bad), missing, slower
        self._error = error
        self.measured: list[str] = []

    def _is_bad(self, version: str) -> bool:
        self.measured.append(version)
        if version in self._missing:
            raise BenchError(f"demo@{version}: it has no wheel")
        return NAMES.index(version) >= self._first_bad

    def latency(self, version: str, launches: int) -> Comparison:
        value = self._slower if self._is_bad(version) else 0.0
        return Comparison(
            effect=Effect(value=value, error=self._error, freedom=30.0), control=None, num_launches=launches
        )

    def outputs(self, version: str) -> str:
        return "drifted" if self._is_bad(version) else "close"


def look(fakes: Fakes, *, drift: bool = False, ends_s: float = math.inf) -> Bisected:
    releases, lines = cast(Releases, fakes), []
    if drift:
        return bisect.drifted(releases, NAMES, "demo", CELL, tell=lines.append, ends_s=ends_s)
    return bisect.slower(releases, NAMES, "demo", CELL, by=0.05, tell=lines.append, ends_s=ends_s)


@pytest.mark.parametrize("drift", [False, True])
@pytest.mark.parametrize("first_bad", NAMES[1:])
def test_every_release_is_found_in_few_steps(first_bad: str, drift: bool) -> None:
    fakes = Fakes(first_bad)
    found = look(fakes, drift=drift)
    assert (found.first_bad, found.last_good) == (first_bad, NAMES[NAMES.index(first_bad) - 1])
    assert found.chance_of_error <= 0.05
    assert len(fakes.measured) <= 5


def test_releases_that_cannot_be_measured_are_left_out_and_named() -> None:
    found = look(Fakes("1.4", missing=("1.4",)))
    assert (found.first_bad, found.last_good) == ("1.5", "1.3")
    text = report.render(found, format="table")
    assert "demo 1.5 is the first bad one of 9 releases, after 1.3" in text
    assert "left out, because they cannot be measured: 1.4, of which 1.4 may have brought the change" in text


@pytest.mark.parametrize(
    ("slower", "error", "said", "measurements"),
    [
        (0.0, 0.004, "demo 1.8 is not 5 % slower than 1.0: 1.000 [0.992, 1.008] times", 1),
        (0.02, 0.004, "demo 1.8 is not 5 % slower than 1.0: 1.020 [1.012, 1.029] times", 1),
        (0.04, 0.03, "it is not clear whether demo 1.8 is slower than 1.0", 2),
    ],
)
def test_a_release_that_is_no_worse_is_said(slower: float, error: float, said: str, measurements: int) -> None:
    fakes = Fakes("1.1", slower=slower, error=error)
    found = look(fakes)
    assert found.first_bad is None
    assert len(fakes.measured) == measurements
    assert said in report.render(found, format="table")


def test_a_bad_release_that_is_not_clear_at_once_is_measured_again() -> None:
    class Better(Fakes):
        def latency(self, version: str, launches: int) -> Comparison:
            self._error = 0.015 if launches == bisect.ENDS_LAUNCHES[0] else 0.004
            return super().latency(version, launches)

    better = Better("1.3")
    found = look(better)
    assert better.measured[:2] == ["1.8", "1.8"]
    assert found.first_bad == "1.3"
    assert len([step for step in found.steps if step.version == "1.8"]) == 1


def test_a_slowdown_of_just_what_was_asked_is_looked_for() -> None:
    """The interval of 95 % ends below 5 % once in forty times; that is no reason to give up."""
    fakes = Fakes("1.5", slower=0.041, error=0.003)
    assert look(fakes).first_bad == "1.5"


def test_outputs_that_are_close_are_said_after_one_measurement() -> None:
    found = look(Fakes("1.8", missing=()), drift=True)
    assert found.first_bad == "1.8"
    fakes = Fakes("1.1")
    fakes.outputs = lambda version: "close"  # type: ignore[method-assign]
    assert "demo 1.8 is no worse than 1.0: outputs close" in report.render(look(fakes, drift=True), format="table")


def test_a_slowdown_that_came_in_two_releases_is_said() -> None:
    class Two(Fakes):
        def latency(self, version: str, launches: int) -> Comparison:
            value = 0.12 if self._is_bad(version) else 0.06 * (NAMES.index(version) >= 2)
            effect = Effect(value=value, error=0.004, freedom=30.0)
            return Comparison(effect=effect, control=None, num_launches=launches)

    two = Two("1.6")
    found = look(two)
    assert (found.first_bad, found.last_good) == ("1.2", "1.1")  # from which on it is 5 % slower
    assert len(two.measured) <= 5
    text = report.render(found, format="table")
    assert "slower than 1.0 and faster than 1.8: 1.4, 1.2, so" in text
    assert "several releases brought a part" in text
    assert "several" not in report.render(look(Fakes("1.6")), format="table")


@pytest.mark.parametrize("drift", [False, True])
def test_a_search_whose_budget_ends_says_what_is_likeliest(drift: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    times = itertools.chain([0.0, 61.0], itertools.repeat(1e9))
    monkeypatch.setattr(bisect, "time", types.SimpleNamespace(monotonic=lambda: next(times)))
    fakes = Fakes("1.2")
    found = look(fakes, drift=drift, ends_s=60.0)
    assert fakes.measured == ["1.8", "1.4"], "the bad release, and one more before the minute ended"
    assert found.is_cut
    assert found.first_bad in ("1.1", "1.2", "1.3", "1.4")
    assert found.chance_of_error == pytest.approx(0.75, abs=0.01)
    text = report.render(found, format="table")
    assert f"demo {found.first_bad} is the likeliest first bad one of 9 releases" in text
    assert text.endswith("after 2 steps; the budget ended before it was surer\n")
    assert not look(Fakes("1.2"), drift=drift).is_cut


def test_one_cell_is_named() -> None:
    assert bisect.one_cell([CELL], "demo") == CELL
    with pytest.raises(InputError, match="names 2 cells; name one of them"):
        bisect.one_cell([CELL, CELL], "demo")


def test_each_step_that_takes_long_is_told_before(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(bisect.versions, "changed", lambda cell, *_: cell)
    monkeypatch.setattr(bisect.verify, "from_name", lambda *_: cast(Verified, object()))
    monkeypatch.setattr(bisect, "measure_pairs", lambda *_, **__: lines.append("measured") or (_ for _ in ()))
    releases = Releases("demo", CELL, "1.0", Method(), tell=lines.append)
    with pytest.raises(ValueError, match="not enough values"):
        releases.latency("1.1", 8)
    assert lines == [
        "demo 1.0: installing it, and running the held-out samples",
        "demo 1.1: installing it, and running the held-out samples",
        "demo 1.1: measuring it beside the good release, 8 launches",
        "measured",
    ]


def test_the_release_is_not_lost_where_the_part_cannot_be_told() -> None:
    class Unable(Fakes):
        def verified(self, version: str) -> Verified:
            raise BenchError("it crashes")

    fakes = Unable("1.4")
    found = look(fakes)

    limits = Limits()
    blamed = bisect.blamed(found, cast(Releases, fakes), is_drift=False, limits=limits, tell=lambda _: None)

    assert blamed.first_bad == "1.4"
    assert report.render(blamed, format="table").endswith(f"\n{slowdown.UNTOLD}: it crashes\n")
