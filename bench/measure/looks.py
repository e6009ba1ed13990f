"""The level of each of several looks at growing data, so that all looks together are wrong as rarely as is said.

A sweep looks at a question after each launch and stops at the first answer. Were each look wrong with probability 5 %,
an answer would be wrong in more than 5 % of sweeps. The looks have much in common, so Bonferroni's correction for their
number would ask for too much: what is needed is the boundary that a random walk crosses with probability 5 %.

Sources: Armitage, McPherson and Rowe 1969, doi 10.2307/2343787 (repeated significance tests, and their recursion);
Pocock 1977, doi 10.1093/biomet/64.2.191 (one nominal level for all looks, which holds nearly for Student's t, too).
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy import optimize, special

_NODES_PER_STEP = 5
"""Points for each standard deviation of a step, at which the walk's density is known; more change no level by 0.1 %."""
_LEAST_NODES = 48
_MOST_LOOKS = 256
"""Looks whose common level is calculated; of more, each so many have an equal share of the error (Bonferroni)."""


@functools.lru_cache(maxsize=1024)
def nominal(alpha: float, looks: int) -> float:
    """The probability of error of each look, on two sides, so that that of any of them is `alpha`.

    Args:
        alpha: the probability that some look is wrong, on two sides.
        looks: the most looks that there may be, each after as much new data as before the first.
    """
    if looks > _MOST_LOOKS:
        # Later looks have more in common than the first, so none of these shares is used up.
        return nominal(alpha / math.ceil(looks / _MOST_LOOKS), _MOST_LOOKS)
    if looks <= 1 or alpha >= 1:
        return alpha
    lowest, highest = (float(-special.ndtri(level / 2)) for level in (alpha, alpha / looks))
    bound = optimize.brentq(lambda bound: math.log(_crossing(bound, looks) / alpha), lowest, highest, xtol=1e-4)
    return float(2 * special.ndtr(-bound))


def _crossing(bound: float, looks: int) -> float:
    """The probability that a sum of n standard normal steps is beyond `bound` times the root of n, for some n.

    After each step the density of the walks that have not crossed is kept at the nodes of Gauss and Legendre.
    """
    num_nodes = max(_LEAST_NODES, math.ceil(_NODES_PER_STEP * bound * math.sqrt(looks)))
    node_K, weight_K = _nodes(num_nodes)
    at_K, mass_K = bound * node_K, bound * weight_K * _normal(bound * node_K)
    crossed = 2 * float(special.ndtr(-bound))
    for number in range(2, looks + 1):
        limit = bound * math.sqrt(number)
        crossed += float(mass_K @ (special.ndtr(at_K - limit) + special.ndtr(-limit - at_K)))
        next_K = limit * node_K
        density_K = _normal(np.subtract.outer(next_K, at_K)) @ mass_K
        at_K, mass_K = next_K, limit * weight_K * density_K
    return crossed


_nodes = functools.lru_cache(maxsize=64)(np.polynomial.legendre.leggauss)


def _normal(values: np.ndarray) -> np.ndarray:
    return np.exp(-(values**2) / 2) / math.sqrt(2 * math.pi)
