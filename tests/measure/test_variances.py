"""Variances that are drawn towards those of their like, and the degrees of freedom of their sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bench.measure.variances import Evidence, approached, drawn, evidence, freedom_of_sum


def test_steps_of_scoring_end_at_the_most_likely_variance() -> None:
    """Of n draws from a normal distribution with mean 0, that is the mean square."""
    draws = np.random.default_rng(1).normal(scale=0.3, size=40)
    variance = 1.0
    for _ in range(20):
        step = evidence(variance, float((draws**2).sum() / variance**2 - 40 / variance), 40 / variance**2)
        variance = math.exp(step.log)
    assert variance == pytest.approx(float((draws**2).mean()), rel=1e-6)
    assert step.freedom == pytest.approx(40)


@pytest.mark.parametrize("freedom", [2.0, 40.0])
def test_few_residuals_move_a_variance_by_a_bounded_amount(freedom: float) -> None:
    """The mean square is 36 times the variance of all programs, from which programs differ by 4 degrees of freedom."""
    variance = before = 1.0
    for _ in range(60):
        score = freedom * (36 / variance**2 - 1 / variance)
        known = {"a": evidence(variance, score=score, information=freedom / variance**2)}
        found = drawn(known, believed=1.0, belief_freedom=1e9, own_freedom=4.0)["a"]
        before, variance = variance, approached(found, variance).value
    assert variance == pytest.approx(before, rel=1e-6), "at rest"
    if freedom == 2:
        assert math.log(variance) == pytest.approx(2 / 4)
    else:  # where the belief pulls as the residuals do, that is the top of the posterior
        assert 4 * math.log(variance) == pytest.approx(freedom * (36 / variance - 1), rel=1e-3)
        assert variance > 25


def test_residuals_without_information_leave_the_variance() -> None:
    assert evidence(0.04, score=5.0, information=0.0) == Evidence(log=math.log(0.04), freedom=0.0)


def test_a_variance_without_evidence_is_that_of_all_programs() -> None:
    known = {"a": Evidence(log=math.log(0.01), freedom=8.0), "b": Evidence(log=0.0, freedom=0.0)}
    found = drawn(known, believed=0.01, belief_freedom=2.0, own_freedom=8.0)
    assert found["b"].value == pytest.approx(0.01)
    # The common mean has the belief's 2 degrees of freedom and 4 of program a; programs differ by 8 more.
    assert 2 / found["b"].freedom == pytest.approx(2 / 6 + 2 / 8)
    assert 2 / found["a"].freedom == pytest.approx((1 / 2) ** 2 * 2 / 6 + 2 / 16)


def test_a_belief_does_not_bar_variances_far_below_it() -> None:
    """Evidence of ten degrees of freedom for a hundredth of the believed variance."""
    known = {"a": Evidence(log=math.log(0.01), freedom=10.0)}
    found = drawn(known, believed=1.0, belief_freedom=2.0, own_freedom=1e9)["a"]
    assert found.value < 0.03, "weighted by degrees of freedom, the variances themselves would have a mean of 0.17"


def test_independent_variances_add_by_satterthwaite() -> None:
    assert freedom_of_sum(np.array([1.0, 1.0]), np.array([5.0, 5.0]), np.zeros((1, 2))) == pytest.approx(10)
    assert freedom_of_sum(np.array([1.0, 0.0]), np.array([5.0, 5.0]), np.zeros((1, 2))) == pytest.approx(5)
    assert freedom_of_sum(np.zeros(2), np.array([5.0, 5.0]), np.zeros((1, 2))) == 1.0


def test_variances_that_rest_on_the_same_belief_have_its_degrees_of_freedom() -> None:
    known = {name: Evidence(log=0.0, freedom=0.0) for name in "ab"}
    found = drawn(known, believed=1.0, belief_freedom=2.0, own_freedom=1e9)
    common = np.array([[found["a"].common, found["b"].common]])
    freedoms = np.array([found["a"].freedom, found["b"].freedom])
    assert freedom_of_sum(np.array([1.0, 1.0]), freedoms, common) == pytest.approx(2.0)
    assert freedom_of_sum(np.array([1.0, 1.0]), freedoms, np.zeros((1, 2))) == pytest.approx(4.0)


def test_intervals_of_a_sum_hold_what_they_claim() -> None:
    """Two effects whose one unknown variance is estimated from three draws."""
    random = np.random.default_rng(2)
    held = []
    for _ in range(4000):
        variance = float((random.normal(size=3) ** 2).mean())
        known = {name: Evidence(log=math.log(variance), freedom=1.5) for name in "ab"}
        found = drawn(known, believed=variance, belief_freedom=1e-9, own_freedom=1e9)
        freedom = freedom_of_sum(
            np.array([each.value for each in found.values()]),
            np.array([each.freedom for each in found.values()]),
            np.array([[each.common for each in found.values()]]),
        )
        width = stats.t.ppf(0.975, freedom) * math.sqrt(2 * variance)
        held.append(abs(random.normal(size=2).sum()) <= width)
    assert np.mean(held) == pytest.approx(0.95, abs=0.012)
