"""Noisy bisection: in which of several versions in a row something became slower, from measurements that err.

A plain bisection that takes one wrong turn ends at the wrong version. Here every version has a probability to be the
first slower one; each measurement of a version beside the good one changes all of them by Bayes' rule, and the version
to measure next is the one whose result says most. So an unlikely result is measured again before it is believed.

Source: Waeber, Frazier and Henderson 2013, doi 10.1137/120861898 (probabilistic bisection).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from bench.measure.stats import Effect

MISTAKES = 0.01
"""Probability that a measurement is of a disturbance and tells nothing; no single one excludes a version for good."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """What is known of where the change is.

    Attributes:
        chances: for each version after the good one, the last of which is bad, the probability that it is the first bad
            one; they add up to 1.
    """

    chances: tuple[float, ...]

    @property
    def found(self) -> int:
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
    both = measured - change  # about 0 if the version is as slow as the bad one
    freedom = max(1.0, min(measured.freedom, both.freedom))
    as_good = float(stats.t.pdf(measured.value / measured.error, freedom) / measured.error)
    as_bad = float(stats.t.pdf(both.value / both.error, freedom) / both.error)
    return _weighed(state, index, as_good, as_bad)


def after_certain(state: State, index: int, *, is_bad: bool) -> State:
    """The state after an observation that does not err: whether the outputs of a version are the good version's."""
    return _normal([chance * float((first <= index) == is_bad) for first, chance in enumerate(state.chances)])


def _weighed(state: State, index: int, as_good: float, as_bad: float) -> State:
    largest = max(as_good, as_bad)
    if not largest > 0 or math.isinf(largest):
        return state
    likely = [(1 - MISTAKES) * (as_bad if first <= index else as_good) for first in range(len(state.chances))]
    return _normal([chance * (one + MISTAKES * largest) for chance, one in zip(state.chances, likely, strict=True)])


def _normal(weights: Sequence[float]) -> State:
    total = sum(weights)
    return State(chances=tuple(weight / total for weight in weights)) if total > 0 else start(len(weights))
