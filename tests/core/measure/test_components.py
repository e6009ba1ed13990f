"""Estimates with the parts of their covariance: sums of them by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bench.measure.components import Components
from bench.measure.variances import Variance

PARTS = Components(
    values=np.array([2.0, 0.5, 9.0]),
    covariances=np.array([np.diag([3.0, 0.0, 0.0]), np.diag([0.0, 1.0, 4.0])]),
    errors=np.diag([0.5, 1.0]),
    believed=np.array([[2.0, 1.0], [1.0, 2.0]]),
    num_launches=1,
)
DIFFERENCE = {0: 1.0, 1: -1.0}
"""Its variance has the parts 3 and 1."""


def test_value_is_the_weighted_sum() -> None:
    assert PARTS.effect(DIFFERENCE).value == 1.5
    assert PARTS.effect({1: 2.0, 2: 1.0}).value == 10.0


def test_share_that_was_believed_is_that_of_the_errors() -> None:
    """Of the variance of the logarithm of 3 + 1: (9 / 2 + 1) / 16 is left of (2 * 9 + 2 * 1 + 2 * 3) / 16."""
    assert PARTS.believed_share(DIFFERENCE) == pytest.approx(5.5 / 26)
    assert PARTS.believed_share({0: 1.0}) == pytest.approx(0.25)


def test_what_has_no_variance_rests_on_nothing() -> None:
    assert PARTS.believed_share({}) == 0.0
    assert (PARTS.effect({}).value, PARTS.effect({}).error) == (0.0, 0.0)


def test_a_further_part_is_one_more_effect() -> None:
    """Known variances make the sum normal: 3 and 1 and 5."""
    known = Components(
        values=PARTS.values,
        covariances=PARTS.covariances,
        errors=np.zeros((2, 2)),
        believed=PARTS.believed,
        num_launches=1,
    )
    effect = known.effect(DIFFERENCE, Variance(value=5.0, freedom=1e9))
    assert effect.error == pytest.approx(3.0, rel=1e-3)
    assert effect.half_width() == pytest.approx(1.959964 * 3.0, rel=1e-3)
