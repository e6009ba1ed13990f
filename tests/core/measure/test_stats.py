"""Statistics: hand values, and simulations in which the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate

from bench.measure import stats
from bench.measure.stats import Effect, Estimate


def effect(value: float, error: float = 0.01, freedom: float = 4.0) -> Effect:
    return Effect(value=value, error=error, freedom=freedom)


def student_tail(distance: float, freedom: float) -> float:
    """Probability that Student's t exceeds a distance: its density, integrated."""
    scale = math.gamma((freedom + 1) / 2) / (math.sqrt(freedom * math.pi) * math.gamma(freedom / 2))
    return float(integrate.quad(lambda t: scale * (1 + t * t / freedom) ** (-(freedom + 1) / 2), distance, math.inf)[0])


@pytest.mark.parametrize(
    ("freedom", "alpha", "quantile"),
    [(4, 0.05, 2.77645), (4, 0.01, 4.60409), (1, 0.05, 12.70620), (1e9, 0.05, 1.95996), (1e9, 0.01, 2.57583)],
)
def test_interval_is_students_from_a_table(freedom: float, alpha: float, quantile: float) -> None:
    found = effect(0.2, error=0.03, freedom=freedom)
    half = 0.03 * quantile
    assert found.half_width(alpha) == pytest.approx(half, rel=1e-5)
    ratio = found.ratio(alpha)
    assert [math.log(value) for value in (ratio.value, ratio.low, ratio.high)] == pytest.approx(
        [0.2, 0.2 - half, 0.2 + half], rel=1e-5
    )


def test_fractions_of_degrees_of_freedom_count() -> None:
    half = effect(0.0, error=1.0, freedom=2.5).half_width()
    assert student_tail(half, 2.5) == pytest.approx(0.025, rel=1e-5)


def test_an_effect_without_error_is_exact() -> None:
    found = effect(math.log(1.5), error=0.0)
    assert found.ratio() == Estimate(value=pytest.approx(1.5), low=pytest.approx(1.5), high=pytest.approx(1.5))
    assert (found.p_value(), effect(0.0, error=0.0).p_value()) == (0.0, 1.0)


def test_an_interval_too_wide_for_a_float_is_endless() -> None:
    ratio = effect(0.0, error=1000.0, freedom=1).ratio()
    assert (ratio.low, ratio.high, ratio.half_width) == (0.0, math.inf, math.inf)


@pytest.mark.parametrize(("value", "p"), [(0.0277645, 0.05), (-0.0460409, 0.01), (0.0, 1.0)])
def test_p_value_is_the_level_whose_interval_ends_at_one(value: float, p: float) -> None:
    found = effect(value)
    assert found.p_value() == pytest.approx(p, rel=1e-5)
    assert found.half_width(p) == pytest.approx(abs(value), rel=1e-5)


def test_after_four_times_the_launches_the_error_is_half() -> None:
    assert effect(0.1).after(4.0) == effect(0.1, error=0.005, freedom=16.0)


def test_difference_adds_the_squares_of_the_errors() -> None:
    """Satterthwaite: 0.05^4 / (0.03^4 / 4 + 0.04^4 / 9)."""
    found = effect(0.3, error=0.03, freedom=4) - effect(0.1, error=0.04, freedom=9)
    assert (found.value, found.error) == pytest.approx((0.2, 0.05))
    assert found.freedom == pytest.approx(625 / (81 / 4 + 256 / 9))
    exact = effect(0.3, error=0.0) - effect(0.1, error=0.0)
    assert (exact.value, exact.error) == (pytest.approx(0.2), 0.0)


@pytest.mark.parametrize(
    ("errors", "freedoms"), [((0.01, 0.01), (3, 3)), ((0.01, 0.03), (2, 8)), ((0.01, 0.0), (3, 3))]
)
def test_interval_of_a_difference_covers_the_truth(errors: tuple[float, ...], freedoms: tuple[int, ...]) -> None:
    """Errors are estimated from as many squares as they have degrees of freedom."""
    random = np.random.default_rng(4)
    covered = 0
    for _ in range(2000):
        one, other = (
            effect(error * random.normal(), error * math.sqrt(random.chisquare(freedom) / freedom), freedom)
            for error, freedom in zip(errors, freedoms, strict=True)
        )
        found = one - other
        covered += abs(found.value) <= found.half_width()
    assert 0.935 <= covered / 2000 <= 0.985


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.90, 0.98, "faster"),
        (1.02, 1.10, "slower"),
        (0.99, 1.01, "noise"),
        (0.98, 1.02, "noise"),
        (0.97, 1.01, "undecided"),
        (0.99, 1.03, "undecided"),
        (0.90, 0.997, "undecided"),  # it reaches into the noise floor of half a percent
        (1.004, 1.10, "undecided"),
        (0.991, 0.994, "faster"),
        (1.006, 1.009, "slower"),
        (1.003, 1.004, "noise"),  # it leaves out 1, but not the floor
        (0.0, math.inf, "undecided"),
    ],
)
def test_verdict(low: float, high: float, expected: str) -> None:
    estimate = Estimate(value=(low + high) / 2, low=low, high=high)
    assert stats.verdict(estimate, margin=0.02) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.90, 0.98, "undecided"), (1.02, 1.10, "undecided"), (0.985, 0.99, "noise"), (0.99, 1.01, "noise")],
)
def test_verdict_of_a_comparison_that_no_correction_selected(low: float, high: float, expected: str) -> None:
    estimate = Estimate(value=(low + high) / 2, low=low, high=high)
    assert stats.verdict(estimate, margin=0.02, may_win=False) == expected


def test_half_width_is_a_share() -> None:
    assert Estimate(value=2.0, low=1.9, high=2.1).half_width == pytest.approx(0.05)


@pytest.mark.parametrize(("percent", "expected"), [(90, 64), (99, 662)])
def test_min_samples(percent: float, expected: int) -> None:
    assert stats.min_samples(percent) == expected


@pytest.mark.parametrize("percent", [50, 75, 90, 95, 99])
def test_min_samples_by_counting(percent: float) -> None:
    """With 99 % confidence at least two samples lie above the percentile, and with one sample fewer not."""
    share = percent / 100

    def chance_of_fewer_than_two_above(num: int) -> float:
        return share**num + num * (1 - share) * share ** (num - 1)

    smallest = stats.min_samples(percent)
    assert chance_of_fewer_than_two_above(smallest) <= 0.01 < chance_of_fewer_than_two_above(smallest - 1)


def test_percentile_is_the_nearest_rank() -> None:
    samples = np.random.default_rng(0).permutation(np.arange(1.0, 101.0))
    assert stats.percentile(samples, 90) == 90.0
    assert stats.percentile(samples[samples < 100], 90) == 90.0  # rank ceil(0.9 * 99) = 90
    assert stats.percentile(np.arange(1.0, 65.0), 90) == 58.0  # rank ceil(57.6)


def test_percentile_below_the_bound_is_none() -> None:
    assert stats.percentile(np.arange(1.0, 64.0), 90) is None
    assert stats.percentile(np.arange(1.0, 65.0), 90) is not None
    assert stats.percentile(np.arange(1.0, 662.0), 99) is None
    assert stats.percentile(np.arange(1.0, 663.0), 99) == 656.0
    assert stats.percentile(np.array([]), 90) is None
