"""Variances that are drawn towards those of their like, and the degrees of freedom of their sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from bench.measure.variances import Evidence, approached, drawn, error_of_sum, evidence, hierarchical, scaled


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
        found = drawn(known, believed=1.0, prior_freedom=1e9, own_freedom=4.0)["a"]
        before, variance = variance, approached(found, variance).value
    assert variance == pytest.approx(before, rel=1e-6), "at rest"
    if freedom == 2:
        assert math.log(variance) == pytest.approx(2 / 4)
    else:  # where the prior pulls as the residuals do, that is the top of the posterior
        assert 4 * math.log(variance) == pytest.approx(freedom * (36 / variance - 1), rel=1e-3)
        assert variance > 25


def test_residuals_without_information_leave_the_variance() -> None:
    assert evidence(0.04, score=5.0, information=0.0) == Evidence(log=math.log(0.04), freedom=0.0)


def test_a_variance_without_evidence_is_that_of_all_programs() -> None:
    known = {"a": Evidence(log=math.log(0.01), freedom=8.0), "b": Evidence(log=0.0, freedom=0.0)}
    found = drawn(known, believed=0.01, prior_freedom=2.0, own_freedom=8.0)
    assert found["b"].value == pytest.approx(0.01)
    # The common mean has the prior's 2 degrees of freedom and 4 of program a; programs differ by 8 more.
    assert 2 / found["b"].freedom == pytest.approx(2 / 6 + 2 / 8)
    assert 2 / found["a"].freedom == pytest.approx((1 / 2) ** 2 * 2 / 6 + 2 / 16)


def test_a_prior_does_not_bar_variances_far_below_it() -> None:
    """Evidence of ten degrees of freedom for a hundredth of the believed variance."""
    known = {"a": Evidence(log=math.log(0.01), freedom=10.0)}
    found = drawn(known, believed=1.0, prior_freedom=2.0, own_freedom=1e9)["a"]
    assert found.value < 0.03, "weighted by degrees of freedom, the variances themselves would have a mean of 0.17"


def test_independent_variances_add_by_satterthwaite() -> None:
    assert error_of_sum(np.array([1.0, 1.0]), np.diag([0.4, 0.4])) == pytest.approx(2 / 10)
    assert error_of_sum(np.array([1.0, 0.0]), np.diag([0.4, 0.4])) == pytest.approx(2 / 5)
    assert error_of_sum(np.zeros(2), np.diag([0.4, 0.4])) == 0.0


def test_variances_with_a_common_error_have_its_degrees_of_freedom() -> None:
    known = {name: Evidence(log=0.0, freedom=0.0) for name in "ab"}
    found = drawn(known, believed=1.0, prior_freedom=2.0, own_freedom=1e9)
    common = np.array([found["a"].common, found["b"].common])
    errors = np.outer(common, common)
    np.fill_diagonal(errors, [2 / found["a"].freedom, 2 / found["b"].freedom])
    assert error_of_sum(np.array([1.0, 1.0]), errors) == pytest.approx(2 / 2)
    assert error_of_sum(np.array([1.0, 1.0]), np.diag(np.diag(errors))) == pytest.approx(2 / 4)


ALIKE = 0.5 + 0.3 * np.kron(np.eye(2), np.ones((2, 2))) + 0.2 * np.eye(4)
"""Covariance of the logarithms of four variances: all, the first two and the last two have something in common."""


def test_hierarchy_is_the_posterior_of_normal_logarithms() -> None:
    """Beside the plain formulas: precisions add, and means are weighted by them."""
    log, freedom = np.array([1.0, 2.0, -1.0, 3.0]), np.array([4.0, 1.0, 10.0, 2.0])
    found = hierarchical(log, freedom, believed=math.exp(0.5), covariance_CC=ALIKE)
    covariance = np.linalg.inv(np.linalg.inv(ALIKE) + np.diag(freedom / 2))
    np.testing.assert_allclose(found.covariance_CC, covariance)
    np.testing.assert_allclose(found.mean_C, covariance @ (np.linalg.solve(ALIKE, np.full(4, 0.5)) + freedom / 2 * log))


def test_variance_without_evidence_is_drawn_to_those_that_are_alike() -> None:
    """The second shares 0.8 of its prior's 1.0 with the first, the others 0.5."""
    known = hierarchical(np.array([2.0, 0, 0, 0]), np.array([1e9, 0, 0, 0]), believed=1.0, covariance_CC=ALIKE)
    np.testing.assert_allclose(known.mean_C, [2.0, 1.6, 1.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(np.diag(known.covariance_CC), [0, 1 - 0.64, 0.75, 0.75], atol=1e-6)
    assert known.covariance_CC[2, 3] == pytest.approx(0.8 - 0.25), "what they have in common is as unsure for both"


def test_variance_by_the_others_is_what_it_were_without_its_own_evidence() -> None:
    log, freedom = np.array([1.0, 2.0, -1.0, 3.0]), np.array([4.0, 1.0, 10.0, 2.0])
    found = hierarchical(log, freedom, believed=1.0, covariance_CC=ALIKE)
    without = hierarchical(log, np.array([4.0, 1.0, 0.0, 2.0]), believed=1.0, covariance_CC=ALIKE)
    others = found.without(2, Evidence(log=-1.0, freedom=10.0))
    assert math.log(others.value) == pytest.approx(without.mean_C[2])
    assert 2 / others.freedom == pytest.approx(without.covariance_CC[2, 2])


@pytest.mark.parametrize("error", [0.1, 0.5, 1.0, 3.0])
def test_intervals_hold_an_effect_whose_variance_is_as_unsure_as_that(error: float) -> None:
    random = np.random.default_rng(3)
    scale, freedom = scaled(0.04, error)
    effects = random.normal(size=100_000) * 0.2 * np.exp(random.normal(size=100_000) * math.sqrt(error) / 2)
    assert np.mean(np.abs(effects) <= special.stdtrit(freedom, 0.975) * math.sqrt(scale)) == pytest.approx(
        0.95, abs=0.01
    )


@pytest.mark.parametrize("error", [0.5, 3.0])
def test_the_tails_are_those_of_the_mixture(error: float) -> None:
    """Satterthwaite's degrees of freedom would ask for intervals that are many times as wide."""
    random = np.random.default_rng(4)
    scale, freedom = scaled(0.04, error)
    effects = random.normal(size=400_000) * 0.2 * np.exp(random.normal(size=400_000) * math.sqrt(error) / 2)
    limit = special.stdtrit(freedom, 1 - 0.005 / 2) * math.sqrt(scale)
    assert np.mean(np.abs(effects) > limit) == pytest.approx(0.005, rel=0.1)
    assert limit < special.stdtrit(2 / error, 1 - 0.005 / 2) * 0.2


def test_a_variance_that_is_known_makes_a_normal_effect() -> None:
    assert scaled(0.04, 0.0)[0] == pytest.approx(0.04)
    assert scaled(0.04, 0.0)[1] > 1e6
    assert scaled(0.04, 0.01)[1] == pytest.approx(200, rel=0.1)
