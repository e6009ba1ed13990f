"""The spread of the latency over inputs, from launches whose passes ran requests with planted effects."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bench.measure import inputs
from bench.measure.launch import Launch
from support import records

NOISE = 0.01
REQUESTS = 16


def launches(
    random: np.random.Generator,
    effects: np.ndarray,
    *,
    num_launches: int = 4,
    passes: int = 30,
    far_off: float = 0.0,
    drift: float = 0.0,
) -> list[Launch]:
    """Launches with a level of their own each.

    Args:
        random: makes the noise.
        effects: of each request, on the log scale.
        num_launches: number of launches.
        passes: passes of each launch.
        far_off: share of the passes that a neighbour slows by 30 % on average.
        drift: steps of a random walk that the machine's speed does from pass to pass, and which fades.
    """
    made = []
    for number in range(num_launches):
        first = int(random.integers(1 << 16))
        noise = random.normal(0, NOISE, passes) + (random.random(passes) < far_off) * random.exponential(0.3, passes)
        walk = itertools.accumulate(
            random.normal(0, drift, passes) if drift else np.zeros(passes), lambda x, y: 0.9 * x + y
        )
        logs = random.normal(0, 0.05) + effects[(first + np.arange(passes)) % len(effects)] + noise + list(walk)
        steady_ns = tuple((int(ns),) for ns in 1e7 * np.exp(logs))
        fields = {"steady_ns": steady_ns, "num_requests": len(effects), "first_request": first}
        made.append(records.launch(str(number), "cell", 1, **fields))
    return made


@pytest.mark.parametrize("trouble", [{}, {"far_off": 0.1}, {"drift": 0.01}, {"num_launches": 1, "passes": 60}])
def test_no_spread_where_all_inputs_take_the_same_time(trouble: dict[str, float]) -> None:
    random = np.random.default_rng(1)
    found = [inputs.spread(launches(random, np.zeros(REQUESTS), **trouble)) for _ in range(300)]  # type: ignore[arg-type]
    assert sum(spread is not None for spread in found) <= 4  # of 300, at a level of 0.001


@pytest.mark.parametrize("trouble", [{}, {"far_off": 0.1}, {"drift": 0.01}, {"num_launches": 8, "passes": 15}])
def test_planted_spread_is_found(trouble: dict[str, float]) -> None:
    random = np.random.default_rng(2)
    effects = 0.03 * np.array([-1.0, 1.0] * (REQUESTS // 2))
    random.shuffle(effects)
    sd = float(effects.std(ddof=1))
    found = [inputs.spread(launches(random, effects, **trouble)) for _ in range(50)]  # type: ignore[arg-type]
    spreads = [spread for spread in found if spread is not None]
    assert len(spreads) >= 48
    assert np.median(spreads) == pytest.approx(sd, rel=0.1)


def test_noise_is_not_counted_as_spread() -> None:
    random = np.random.default_rng(3)
    effects = 0.006 * np.array([-1.0, 1.0] * (REQUESTS // 2))
    found = [inputs.spread(launches(random, effects, num_launches=12)) for _ in range(50)]
    assert np.median([spread or 0.0 for spread in found]) == pytest.approx(float(effects.std(ddof=1)), rel=0.15)


def test_a_request_keeps_its_effect_in_launches_that_begin_with_another() -> None:
    random = np.random.default_rng(4)
    effects = random.normal(0, 0.05, REQUESTS)
    known = launches(random, effects, num_launches=8, passes=REQUESTS)
    assert inputs.spread(known) == pytest.approx(float(effects.std(ddof=1)), rel=0.1)
    unknown = [records.replaced(launch, first_request=0) for launch in known]
    assert inputs.spread(unknown) is None


def test_launches_of_one_request_have_no_spread() -> None:
    random = np.random.default_rng(5)
    alone = [records.launch(str(number), "cell", 1_000_000 + number) for number in range(6)]
    assert inputs.spread(alone) is None
    assert inputs.spread([]) is None
    few = launches(random, np.linspace(0, 1, REQUESTS), num_launches=1, passes=REQUESTS + 4)
    assert inputs.spread(few) is None, "few passes tell nothing of the noise"
    many = launches(random, 0.1 * np.array([-1.0, 1.0] * 8))
    assert inputs.spread([*alone, *many]) == inputs.spread(many), "launches of an earlier version count for nothing"
