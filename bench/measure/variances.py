"""Variances of random effects as they are estimated: each drawn towards those of its like, with degrees of freedom."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

LEAST_FREEDOM = 1e-6  # fewer degrees of freedom are rounding
LEAST_ERROR = 1e-8  # of the logarithm of a variance: less is as good as known
_LEVELS = (0.05, 0.005)
"""Probabilities of error at which the interval of a sum of effects is recovered from those of its parts."""
_MOST_SURPRISE = 1.0
"""Most that residuals may be too large or too small, relative to what a variance lets expect, as evidence about it.

So evidence moves a variance by no more than its degrees of freedom over those of the prior. A machine that jumps from
one state to another and stays there is not the process of the model, and few degrees of freedom would ask for variances
that no machine has. This is the bounded influence of Huber 1964, doi 10.1214/aoms/1177703732.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evidence:
    """What residuals tell of a variance.

    Attributes:
        log: logarithm of the variance that would make the residuals most likely, as far as `_MOST_SURPRISE` lets it be.
        freedom: degrees of freedom that the residuals are worth; 0 where they tell nothing.
    """

    log: float
    freedom: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variance:
    """An estimate of a variance.

    Attributes:
        value: the variance.
        freedom: its degrees of freedom: the logarithm of `value` has a variance of 2 / freedom.
        common: standard deviation of that part of the logarithm's error which all variances of its kind have in common,
            because they were drawn towards the same figure.
    """

    value: float
    freedom: float
    common: float = 0.0


def evidence(variance: float, score: float, information: float) -> Evidence:
    """One step of Fisher's scoring on the logarithm of a variance.

    Args:
        variance: the present estimate.
        score: twice the derivative of the restricted log-likelihood with respect to the variance.
        information: twice the expected information about the variance.
    """
    freedom = information * variance**2
    if freedom <= LEAST_FREEDOM:
        return Evidence(log=math.log(variance), freedom=0.0)
    surprise = score * variance / freedom
    return Evidence(log=math.log(variance) + max(-_MOST_SURPRISE, min(_MOST_SURPRISE, surprise)), freedom=freedom)


def approached(variance: Variance, before: float) -> Variance:
    """A variance half way from the estimate before, on the log scale.

    Variances that explain the same residuals move together, each by the whole of what is missing, so whole steps would
    swing about the answer.
    """
    return dataclasses.replace(variance, value=math.sqrt(before * variance.value))


def before_any(prior_freedom: float, own_freedom: float) -> Variance:
    """What is known of a program's variance before any launch, but for its value; arguments as for `drawn`."""
    error = 2 / prior_freedom + 2 / own_freedom
    return Variance(value=math.nan, freedom=2 / error, common=math.sqrt(2 / prior_freedom))


def drawn(
    known: Mapping[str, Evidence], *, believed: float, prior_freedom: float, own_freedom: float
) -> dict[str, Variance]:
    """Variances of one kind, by program: each drawn towards that of all programs, and that towards the prior.

    The logarithms of the programs' variances are taken as normal about a common mean, and that mean as normal about the
    prior; the result is the mode of the posterior, with its error. On the logarithms, a prior does not bar variances
    that are many times smaller: a prior on the variance itself, such as the inverse chi-squared, hardly lets it fall
    below a third of the prior. Source: Gelman 2006, doi 10.1214/06-BA117A.

    Args:
        known: what the residuals tell of each program.
        believed: the variance that is believed before any launch.
        prior_freedom: weight of `believed`, in degrees of freedom: 2 over the variance of its logarithm.
        own_freedom: likewise for the differences between programs.
    """
    # What one program tells of the others is bounded by how far programs differ.
    weights = {name: 1 / (1 / own_freedom + 1 / each.freedom) if each.freedom else 0.0 for name, each in known.items()}
    weight = prior_freedom + sum(weights.values())
    common = prior_freedom * math.log(believed) + sum(weights[name] * each.log for name, each in known.items())
    common /= weight
    variances = {}
    for name, own in known.items():
        share = own_freedom / (own_freedom + own.freedom)
        log = share * common + (1 - share) * own.log
        error = share**2 * 2 / weight + 2 / (own_freedom + own.freedom)
        variances[name] = Variance(value=math.exp(log), freedom=2 / error, common=share * math.sqrt(2 / weight))
    return variances


@dataclasses.dataclass(frozen=True, kw_only=True)
class Logarithms:
    """Estimates of the logarithms of several variances.

    Attributes:
        mean_C: the estimates, of shape (C,).
        covariance_CC: covariance of their errors, of shape (C, C).
    """

    mean_C: np.ndarray  # noqa: N815
    covariance_CC: np.ndarray  # noqa: N815

    def without(self, index: int, evidence: Evidence) -> Variance:
        """The estimate of one of them without its own evidence: from the others and the prior alone.

        It is the normal distribution that has the posterior as its product with that of the evidence: see Rasmussen and
        Williams 2006, "Gaussian Processes for Machine Learning", equation 3.56.
        """
        error = max(float(self.covariance_CC[index, index]), LEAST_ERROR)
        precision = 1 / error - evidence.freedom / 2
        log = (float(self.mean_C[index]) / error - evidence.log * evidence.freedom / 2) / precision
        return Variance(value=math.exp(log), freedom=2 * precision)


def hierarchical(log_C: np.ndarray, freedom_C: np.ndarray, *, believed: float, covariance_CC: np.ndarray) -> Logarithms:
    """Variances that are alike in several ways, as by request and by program: each drawn towards those of its like.

    Before any evidence the logarithms are normal; the evidence of each has an error of 2 / freedom. So the estimates
    are those of a Gaussian process: Rasmussen and Williams 2006, chapter 3 (Laplace's approximation).

    Args:
        log_C: what the evidence tells of the logarithm of each variance, of shape (C,).
        freedom_C: degrees of freedom of the evidence; 0 where there is none.
        believed: the variance that is believed before any evidence.
        covariance_CC: covariance of the logarithms before any evidence: what two variances have in common.
    """
    known_k = np.flatnonzero(freedom_C)
    root_k = np.sqrt(freedom_C[known_k] / 2)
    scaled_kC = root_k[:, None] * covariance_CC[known_k]
    gain_kC = np.linalg.solve(np.eye(len(root_k)) + scaled_kC[:, known_k] * root_k, scaled_kC)
    mean_C = math.log(believed) + gain_kC.T @ (root_k * (log_C[known_k] - math.log(believed)))
    return Logarithms(mean_C=mean_C, covariance_CC=covariance_CC - scaled_kC.T @ gain_kC)


def scaled(value: float, error: float) -> tuple[float, float]:
    """Student's distribution for an effect whose variance is known but for an error.

    The logarithm of the variance is normal, so the effect is a mixture of normals; Student's distribution has its
    quantiles at both `_LEVELS`. For small errors the degrees of freedom are 2 over the error, and the scale is the
    value. For larger ones that would be far too wide: an error of 1 is worth 4.5 degrees of freedom.

    Args:
        value: exponential of the mean of the logarithm of the variance.
        error: variance of this logarithm.

    Returns:
        The square of the scale, and the degrees of freedom.
    """
    error_K, freedom_K, scale_K = _mixtures()
    log = math.log(max(error, LEAST_ERROR))
    return value * math.exp(float(np.interp(log, error_K, scale_K))), math.exp(
        float(np.interp(log, error_K, freedom_K))
    )


@functools.cache
def _mixtures() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By the logarithm of the error, in order: logarithms of the degrees of freedom and of the square of the scale."""
    error_K = np.geomspace(1e-3, 60, 80)
    node_Y, weight_Y = np.polynomial.hermite_e.hermegauss(80)
    sd_KY = np.exp(np.sqrt(error_K)[:, None] * node_Y / 2)
    squares = []
    for level in _LEVELS:
        low_K, high_K = np.zeros(len(error_K)), np.full(len(error_K), 60.0)  # of the logarithm of the quantile
        for _ in range(60):
            middle_K = (low_K + high_K) / 2
            beyond_K = 2 * special.ndtr(-np.exp(middle_K)[:, None] / sd_KY) @ weight_Y / weight_Y.sum()
            low_K, high_K = np.where(beyond_K > level, middle_K, low_K), np.where(beyond_K > level, high_K, middle_K)
        squares.append(2 * low_K)
    ratio_K, freedom_K, quantile_K = _ratios()
    ratios = squares[1] - squares[0]
    freedoms, quantiles = (np.interp(ratios, ratio_K, values_K) for values_K in (freedom_K, quantile_K))
    # Below the smallest error of the table, both follow from the rule for small errors.
    small = np.log(LEAST_ERROR)
    logs = (np.log(error_K), np.log(freedoms), squares[0] - 2 * np.log(quantiles))
    known, freedom, scale = (
        np.concatenate([[first], log_K]) for first, log_K in zip((small, math.log(2) - small, 0.0), logs, strict=True)
    )
    return known, freedom, scale


def together(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Student's distribution for a sum of independent effects that have Student's distributions.

    A small part with few degrees of freedom makes the tails of the sum long, which Satterthwaite's degrees of freedom
    do not say. So the half-widths of the parts' intervals are added in squares, at two levels, and the distribution has
    the sum at both. Source: Zou and Donner 2008, doi 10.1002/sim.3095 (limits recovered from those of the parts).

    Args:
        parts: square of the scale, and degrees of freedom, of each part.

    Returns:
        The square of the scale and the degrees of freedom of the sum.
    """
    scale_P, freedom_P = np.array(parts).T
    near, far = (float(scale_P @ special.stdtrit(freedom_P, 1 - level / 2) ** 2) for level in _LEVELS)
    if near == 0:
        return 0.0, 1.0
    ratio_K, freedom_K, quantile_K = _ratios()
    log = math.log(far / near)
    return near / float(np.interp(log, ratio_K, quantile_K)) ** 2, float(np.interp(log, ratio_K, freedom_K))


@functools.cache
def _ratios() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By the logarithm of the ratio of squared quantiles at both `_LEVELS`, in order: freedoms and first quantiles."""
    freedom_K = np.logspace(9, -1, 2000)
    near_K, far_K = (special.stdtrit(freedom_K, 1 - level / 2) for level in _LEVELS)
    return 2 * np.log(far_K / near_K), freedom_K, near_K


def error_of_sum(variance_P: np.ndarray, errors_PP: np.ndarray) -> float:
    """Variance of the logarithm of a sum of estimated variances; 0 where the sum is 0.

    Source: Satterthwaite 1946, doi 10.2307/3002019, for independent parts; here the errors may have parts in common.

    Args:
        variance_P: the parts of the sum.
        errors_PP: covariance of the errors of their logarithms.
    """
    total = float(variance_P.sum())
    return float(variance_P @ errors_PP @ variance_P) / total**2 if total else 0.0
