"""How many passes a block has: by simulation and by the formula's own limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.measure import passes

COSTS = {"set_up_s": 10.0, "pass_s": 0.4, "pass_sd": 0.06, "launch_sd": 0.012}


def test_the_number_leaves_the_least_variance_for_the_time() -> None:
    def variance_of_a_second(number: int) -> float:
        variance = COSTS["launch_sd"] ** 2 + COSTS["pass_sd"] ** 2 / number
        return variance * (COSTS["set_up_s"] + number * COSTS["pass_s"])

    assert min(range(1, 1000), key=variance_of_a_second) == passes.best_number(**COSTS) == 25


@pytest.mark.parametrize(
    ("change", "factor"),
    [({"set_up_s": 40.0}, 2), ({"pass_s": 0.1}, 2), ({"pass_sd": 0.12}, 2), ({"launch_sd": 0.024}, 1 / 2)],
)
def test_what_makes_passes_worth_more(change: dict[str, float], factor: float) -> None:
    assert passes.best_number(**{**COSTS, **change}) == pytest.approx(25 * factor)


@pytest.mark.parametrize(("pass_sd", "number"), [(0.012, 4), (0.036, 36), (0.003, 0.25)])
def test_brief_launches_have_a_quarter_more_variance_than_endless_ones(pass_sd: float, number: float) -> None:
    assert passes.brief_number(pass_sd=pass_sd, launch_sd=0.012) == pytest.approx(number)
    assert pass_sd**2 / number == pytest.approx(0.012**2 / 4)


def burst_medians(seed: int, *sds: float, num_passes: int) -> np.ndarray:
    """Medians of bursts in nanoseconds, (launches, passes), with a state of the machine that they share."""
    random = np.random.default_rng(seed)
    states = random.normal(0, 0.5, num_passes)
    return np.exp(
        [np.log(1e6 * (1 + place)) + states + random.normal(0, sd, num_passes) for place, sd in enumerate(sds)]
    )


def test_noise_of_a_pass_is_that_of_the_launches_beyond_the_state_of_the_machine() -> None:
    sds = (0.02, 0.02, 0.03, 0.03, 0.05, 0.04)
    expected = math.sqrt(sum(sd**2 for sd in sds) / len(sds))
    assert passes.pass_sd(burst_medians(3, *sds, num_passes=2000)) == pytest.approx(expected, rel=0.15)
    assert passes.pass_sd(burst_medians(4, 0.02, 0.02, num_passes=2000)) == pytest.approx(0.02, rel=0.15)


def test_number_of_passes_does_not_change_what_one_of_them_tells() -> None:
    found = [[passes.pass_sd(burst_medians(seed, *[0.03] * 8, num_passes=n)) for seed in range(40)] for n in (5, 60)]
    few, many = np.mean(found, axis=1)
    assert many == pytest.approx(0.03, rel=0.2)
    assert few == pytest.approx(many, rel=0.2)


def test_disturbed_passes_hardly_count_as_noise() -> None:
    calm = burst_medians(5, *[0.01] * 6, num_passes=100)
    disturbed = calm.copy()
    disturbed[2, ::5] *= 4
    assert passes.pass_sd(disturbed) < 1.5 * passes.pass_sd(calm)
