"""Estimates with the parts of their covariance, and what follows for a weighted sum of them, such as a difference.

Each part is a variance that is an estimate itself. So the interval of a sum is Student's, with degrees of freedom by
how well the parts are known, and some of what is known of them was believed before any launch.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from bench.measure.stats import Effect
from bench.measure.variances import LEAST_ERROR, Variance, error_of_sum, scaled, together


@dataclasses.dataclass(frozen=True, kw_only=True)
class Components:
    """Estimates of a request with the parts of their covariance; a part is due to a cell's launches or to an effect.

    Attributes:
        values: the levels of the cells, and last the mean of the blocks, of shape (R,).
        covariances: the parts of their covariance, of shape (P, R, R): those of all cells' launches, that of the time
            that launches lost where some did, and then those of the effects.
        errors: covariance of the errors of the logarithms of the parts' variances, of shape (P, P).
        believed: the same before any launch.
        num_launches: number of the parts that are of launches.
    """

    values: np.ndarray
    covariances: np.ndarray
    errors: np.ndarray
    believed: np.ndarray
    num_launches: int

    def effect(self, weights: Mapping[int, float], further: Variance | None = None) -> Effect:
        """A weighted sum of the estimates, by their places; `further` is one more part of its variance."""
        # Views: the errors have a row for each cell of all requests, and this is asked of each pair of cells.
        launches_P, effects_P = np.split(self._variances(weights), [self.num_launches])
        launch_errors_PP = self.errors[: self.num_launches, : self.num_launches]
        effect_errors_PP = self.errors[self.num_launches :, self.num_launches :]
        if further:
            effects_P, effect_errors_PP = np.append(effects_P, further.value), np.pad(effect_errors_PP, (0, 1))
            effect_errors_PP[-1, -1] = 2 / further.freedom
        launches = scaled(float(launches_P.sum()), error_of_sum(launches_P, launch_errors_PP))
        # Effects are not drawn as a prior says: a machine jumps. So their degrees of freedom are taken as few.
        effects = (float(effects_P.sum()), 2 / max(error_of_sum(effects_P, effect_errors_PP), LEAST_ERROR))
        variance, freedom = together([launches, effects])
        value = float(np.array(list(weights.values())) @ self.values[list(weights)])
        return Effect(value=value, error=math.sqrt(variance), freedom=freedom)

    def believed_share(self, weights: Mapping[int, float]) -> float:
        """Of what is known of the variance of a weighted sum, the share that was believed before any launch.

        What is known of a variance is the inverse of the variance of its logarithm, or half its degrees of freedom. It
        is 1 where no launch tells anything, and near 0 after very many; 0 where the sum has no variance.
        """
        variance_P = self._variances(weights)
        before = error_of_sum(variance_P, self.believed)
        return error_of_sum(variance_P, self.errors) / before if before else 0.0

    def covariance(self, places: Sequence[int]) -> np.ndarray:
        """Covariance of the errors of K of the estimates, by their places, of shape (K, K)."""
        return self._covariance[np.ix_(places, places)]

    @functools.cached_property
    def _covariance(self) -> np.ndarray:
        return np.asarray(self.covariances.sum(axis=0))

    def _variances(self, weights: Mapping[int, float]) -> np.ndarray:
        """The parts of the variance of a weighted sum, of shape (P,)."""
        rows, row_weights = np.array([*weights], dtype=int), np.array([*weights.values()])
        parts_Prs = self.covariances[:, rows[:, None], rows[None, :]]
        variance_P = np.einsum("r,prs,s->p", row_weights, parts_Prs, row_weights)
        return np.maximum(variance_P, 0.0)  # where effects cancel, rounding leaves less than nothing


def errors_of(effects: Sequence[tuple[str, Variance]]) -> np.ndarray:
    """Covariance of the errors of the logarithms of variances of effects, given with their kinds."""
    of_E, common_E = np.array([kind for kind, _ in effects]), np.array([effect.common for _, effect in effects])
    errors_EE = np.equal.outer(of_E, of_E) * np.outer(common_E, common_E)
    np.fill_diagonal(errors_EE, [2 / effect.freedom for _, effect in effects])
    return errors_EE
