"""The best choice under a limit on the noise: an integer program over the effects of all letters."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
from collections.abc import Iterator, Mapping

import numpy as np
from scipy import optimize

from bench.features.search.design import Choice, Design
from bench.features.search.effects import Effects, Key

_LEVELS = 24
"""Limits on the noise at most, each half of the next, from the most that is expected of any choice."""


def best(design: Design, costs: Mapping[Key, float], noise: Mapping[Key, float], limit: float) -> Choice | None:
    """The choice of least cost whose noise is at most `limit`; None where no choice is.

    Args:
        design: the groups and their letters.
        costs: what a letter adds to the cost, by group and letter; letters without one are not chosen.
        noise: what it adds to the noise.
        limit: most noise.
    """
    keys = [
        (group, letter)
        for group, letters in enumerate(design.letters)
        for letter in letters
        if letter == letters[0] or (group, letter) in costs
    ]
    one_each = np.array([[float(key[0] == group) for key in keys] for group in range(len(design.letters))])
    noise_K = np.array([noise.get(key, 0.0) for key in keys])
    scale = float(noise_K.max(initial=0.0)) or 1.0
    with _printing_nothing():
        solution = optimize.milp(
            np.array([costs.get(key, 0.0) for key in keys]),
            integrality=np.ones(len(keys)),
            bounds=optimize.Bounds(0, 1),
            constraints=[
                optimize.LinearConstraint(one_each, 1, 1),
                optimize.LinearConstraint(noise_K[None] / scale, -np.inf, limit / scale),
            ],
        )
    if solution.x is None:
        return None
    chosen = {group: letter for (group, letter), is_chosen in zip(keys, solution.x, strict=True) if is_chosen > 0.5}
    return tuple(chosen[group] for group in range(len(design.letters)))


def ladder(design: Design, effects: Effects, costs: Mapping[Key, float]) -> list[Choice]:
    """The best choices under several limits on the noise, the least noise first."""
    most = sum(
        max(effects.noise.get((group, letter), 0.0) for letter in letters)
        for group, letters in enumerate(design.letters)
    )
    if most <= 0:
        optimum = best(design, costs, {}, 0.0)
        return [] if optimum is None or optimum == design.plain else [optimum]
    least = min(value for value in effects.noise.values() if value > 0)
    levels = min(_LEVELS, 1 + math.ceil(math.log2(most / least)))
    limits = [most / 2**level for level in reversed(range(levels))]
    steps = [best(design, costs, effects.noise, limit) for limit in limits]
    return list(dict.fromkeys(choice for choice in steps if choice is not None and choice != design.plain))


@contextlib.contextmanager
def _printing_nothing() -> Iterator[None]:
    """Keep standard output as it is: the solver of SciPy 1.17, HiGHS, prints names of its functions there."""
    if os.name != "posix":
        yield
        return
    library, output = ctypes.CDLL(None), os.dup(1)
    library.fflush(None)
    with open(os.devnull, "wb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 1)
    try:
        yield
    finally:
        library.fflush(None)  # what it printed waits in the buffer of C
        os.dup2(output, 1)
        os.close(output)
