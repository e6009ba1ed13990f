"""The script that learns from stored results how noisy each kind of machine is."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bench.measure.joint import Observation

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def priors(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return __import__("priors")


def sweep(launch: float, shock: float, block: float) -> list[Observation]:
    """A request of three programs in 40 blocks that lie hours apart; the baseline runs twice in each."""
    random = np.random.default_rng(4)
    found = []
    for number in range(40):
        machine, shocks = block * random.normal(), shock * random.normal(size=3)
        for place in (0, *range(9)):
            level = machine + shocks[place % 3] + launch * random.normal()
            found.append(
                Observation(
                    cell=f"c{place}",
                    program="abc"[place % 3],
                    block=number,
                    time_s=1e5 * number,
                    level=level,
                    variance=0.0,
                )
            )
    return found


def test_a_sweep_tells_its_scales_whatever_is_believed(priors: ModuleType) -> None:
    """Each is far from the prior: launches of 0.4 %, states and shocks together of 6 %, blocks of 30 %."""
    found = priors.told([sweep(0.004, 0.06, 0.3)])
    assert math.exp(found["launch"].log) == pytest.approx(0.004, rel=0.15)
    assert math.exp(found["block"].log) == pytest.approx(0.3, rel=0.3)
    scales = [math.exp(found[name].log) for name in ("state", "own_state", "shock") if name in found]
    assert math.sqrt(sum(scale**2 for scale in scales)) == pytest.approx(0.06, rel=0.4)


def test_what_sweeps_of_a_kind_differ_by_is_their_variance_beyond_errors(priors: ModuleType) -> None:
    """By hand: two sweeps of equal errors v at distance d have d^2 / 2 - v."""
    alike = [priors.Told(log=0.0, variance=0.01), priors.Told(log=0.6, variance=0.01)]
    assert priors.between({"a": alike}) == pytest.approx(0.6**2 / 2 - 0.01)
    assert priors.between({"a": alike[:1], "b": alike[1:]}) == 0.0, "of different kinds"
    assert priors.mean(alike, 0.17).variance == pytest.approx(0.18 / 2)


def test_a_kind_differs_only_beyond_what_its_sweeps_differ_by(priors: ModuleType) -> None:
    def kinds(spread: float) -> dict[str, list[object]]:
        return {
            name: [priors.Told(log=log + sign * spread, variance=0.01) for sign in (-1, 1)]
            for name, log in (("a", 0.0), ("b", 0.0), ("c", 1.0))
        }

    ratio, low, high = priors.over_others(kinds(0.0), "c", 3)
    assert ratio == pytest.approx(math.e)
    assert low > 1
    half = 2.394 * math.sqrt(0.01 / 2 + 0.01 / 4)  # the normal quantile of 0.05 / 3 on both sides
    assert (math.log(low), math.log(high)) == pytest.approx((1 - half, 1 + half), abs=1e-3)
    _, low, high = priors.over_others(kinds(0.6), "c", 3)
    assert low < 1 < high
