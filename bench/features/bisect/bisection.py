"""Noisy bisection: in which of several versions in a row something became slower, from measurements that err.

A plain bisection that takes one wrong turn ends at the wrong version. Here every version has a probability to be the
first slower one; each measurement of a version beside the good one changes all of them by Bayes' rule, and the version
to measure next is the one whose result says most. So an unlikely result is measured again before it is believed.

How much slower the bad version is, is itself known with an error, which all steps share: what was measured is likely
for a version as far as it is so on average over all slowdowns that the bad version may have. One version is taken to
bring the whole slowdown; `between` tells of a measurement that contradicts it.

Source: Waeber, Frazier and Henderson 2013, doi 10.1137/120861898 (probabilistic bisection).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy import special

from bench.measure.stats import Effect

_MISTAKES = 0.01
"""Probability that a measurement is of a disturbance and tells nothing; no single one excludes a version for good."""
RARE = 0.005
"""Probability with which a single measurement seems to lie between the good version and the bad one, and does not."""
_SLOWDOWNS = 200
"""Slowdowns, equally likely, that stand for all that the bad version may have."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """What is known of where the change is.

    Attributes:
        chances: for each version after the good one, the last of which is bad, the probability that it is the first bad
            one; they add up to 1.
        prior: the same before any measurement, up to a factor; the same for all if it is empty.
        measured: the versions that were measured, by index, and their latencies over the good version's (logarithm).
    """

    chances: tuple[float, ...]
    prior: tuple[float, ...] = ()
    measured: tuple[tuple[int, Effect], ...] = ()

    @property
    def first_bad(self) -> int:
        """Index of the version that is most likely the first bad one."""
        return int(np.argmax(self.chances))

    @property
    def chance_of_error(self) -> float:
        """Probability that another version is the first bad one."""
        return 1 - max(self.chances)

    def next(self) -> int:
        """Index of the version to measure next: bad with a probability nearest to one half.

        The last version is known to be bad, and is not proposed.
        """
        is_bad = np.cumsum(self.chances)[:-1]
        return int(np.argmin(np.abs(is_bad - 0.5)))


def start(num_versions: int) -> State:
    """The state before any measurement: each version may be the first bad one.

    Args:
        num_versions: number of versions after the good one, the bad one included.
    """
    return State(chances=(1 / num_versions,) * num_versions)


def after(state: State, index: int, measured: Effect, change: Effect) -> State:
    """The state after a measurement.

    Args:
        state: what was known.
        index: the version that was measured.
        measured: logarithm of its latency over the good version's.
        change: the same of the bad version.
    """
    seen = (*state.measured, (index, measured))
    prior = state.prior or (1.0,) * len(state.chances)
    parts = (np.arange(_SLOWDOWNS) + 0.5) / _SLOWDOWNS
    slowdowns_S = change.value + change.error * special.stdtrit(max(1.0, change.freedom), parts)
    logs_VS = np.zeros((len(prior), _SLOWDOWNS))
    for number, effect in seen:
        is_bad_V = np.arange(len(prior)) <= number
        logs_VS += np.where(
            is_bad_V[:, None], _log_likelihood(effect, slowdowns_S), _log_likelihood(effect, np.zeros(1))
        )
    weights = np.exp(logs_VS - logs_VS.max()).mean(axis=1) * prior
    return dataclasses.replace(_normal(weights.tolist()), prior=prior, measured=seen)


def _log_likelihood(measured: Effect, true_S: np.ndarray) -> np.ndarray:
    """Logarithm of how likely a measurement is, up to a factor, for each of some true values."""
    if not measured.error > 0:  # it tells nothing of how far it errs
        return np.zeros_like(true_S)
    freedom = max(1.0, measured.freedom)
    density_S = (1 + ((measured.value - true_S) / measured.error) ** 2 / freedom) ** (-(freedom + 1) / 2)  # Student's
    return np.log((1 - _MISTAKES) * density_S + _MISTAKES)


def between(measured: Effect, change: Effect) -> bool:
    """Whether a version is slower than the good one and faster than the bad one, so that several brought a part of it.

    Args:
        measured: logarithm of its latency over the good version's.
        change: the same of the bad version.
    """
    rest = change - measured
    return measured.value > measured.half_width(RARE) and rest.value > rest.half_width(RARE)


def without(state: State, index: int) -> State:
    """The state without a version that cannot be measured: a change that came with it is seen in the next one."""

    def joined(values: Sequence[float]) -> tuple[float, ...]:
        return (*values[:index], values[index] + values[index + 1], *values[index + 2 :])

    measured = tuple((number - (number > index), effect) for number, effect in state.measured if number != index)
    prior = state.prior or (1.0,) * len(state.chances)
    return State(chances=joined(state.chances), prior=joined(prior), measured=measured)


def after_certain(state: State, index: int, *, is_bad: bool) -> State:
    """The state after an observation that does not err, such as that a version has the good version's outputs."""
    return _after_likely(state, index, chance=float(is_bad))


def after_part(state: State, index: int, measured: Effect, least: float) -> State:
    """The state after a measurement of a version that brought a part: it is bad if it is slower by `least` or more.

    Args:
        state: what was known.
        index: the version that was measured.
        measured: logarithm of its latency over the good version's.
        least: logarithm of the least slowdown that counts.
    """
    chance = float(special.stdtr(measured.freedom, (measured.value - least) / measured.error))
    return _after_likely(state, index, chance=min(max(chance, _MISTAKES), 1 - _MISTAKES))


def _after_likely(state: State, index: int, *, chance: float) -> State:
    """The state after an observation by which a version is bad with a probability."""
    possible = [chance if first <= index else 1 - chance for first in range(len(state.chances))]
    prior = state.prior or (1.0,) * len(state.chances)
    posterior = _normal([chance * may_be for chance, may_be in zip(state.chances, possible, strict=True)])
    left = tuple(weight * may_be for weight, may_be in zip(prior, possible, strict=True))
    return dataclasses.replace(posterior, prior=left if any(left) else (), measured=state.measured)


def _normal(weights: Sequence[float]) -> State:
    total = sum(weights)
    return State(chances=tuple(weight / total for weight in weights)) if total > 0 else start(len(weights))
