"""What each choice costs and saves, estimated from the proposals that were measured.

Latency over that of the base and size are sums over the groups of a design, and so is the power of the noise, as far as
the errors of groups are independent. Each is fitted by least squares; groups act on one another, so proposals that look
good are measured themselves, and enter the next fit.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import optimize

from bench.api.loss_units import SHARE, Unit
from bench.features.search.design import Choice, Design

LEAST_ERROR = 0.01
"""Standard error of a ratio that is taken where a smaller one was estimated, for the sum is no exact model."""
_PRIOR = 0.2
"""Standard deviation of the effect of a group on the ratio, before anything is known."""
_LEAST_NOISE = 1e-12
_RANK = 1e-9
"""Singular values below this share of the largest count as zero."""
_FULL_DB = 120.0
"""Of outputs without any error."""
Key = tuple[int, str]
"""A group's number and a letter."""


def decibels(noise: float) -> float:
    """The fidelity of outputs whose error has `noise` times their power."""
    return min(_FULL_DB, -10 * math.log10(noise)) if noise > 0 else _FULL_DB


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tried:
    """A proposal that was measured.

    Attributes:
        choice: its letters.
        ratio: latency over that of the baseline of all designs; None where it was not timed.
        error: standard error of the ratio.
        noise: power of the error of its outputs over the power of the outputs, on the tuning samples.
        size_bytes: size of its artifact.
        memory_bytes: its peak resident set, imports included; None where it was not timed.
        number: number of the round of its design in which it was tried, from 1.
        metric_loss: what it loses of the task's own metric on the tuning samples; None where they have no labels.
        metric_loss_unit: unit of that.
    """

    choice: Choice
    ratio: float | None
    error: float
    noise: float
    size_bytes: int
    memory_bytes: int | None
    number: int = 1
    metric_loss: float | None = None
    metric_loss_unit: Unit = SHARE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Effects:
    """By group and letter, what the letter adds to the base.

    Attributes:
        ratio: to the latency, as a share of the base's.
        noise: to the power of the noise.
        size_bytes: to the size, in bytes.
        memory_bytes: to the peak resident set, in bytes.
        distinct: the letters whose own effects the proposals tell apart; of letters that were always tried together,
            only their sum is known, and what stands here for each is an equal part of it.
    """

    ratio: Mapping[Key, float]
    noise: Mapping[Key, float]
    size_bytes: Mapping[Key, float]
    memory_bytes: Mapping[Key, float]
    distinct: frozenset[Key]


def fit(design: Design, tried: Sequence[Tried], base: Tried) -> Effects:
    """The effects of all letters that were tried.

    Args:
        design: the groups and their letters.
        tried: the proposals that ran.
        base: the cell that leaves all parts as they are.
    """
    keys = [(group, letter) for group, letters in enumerate(design.letters) for letter in letters[1:]]
    column = {key: number for number, key in enumerate(keys)}
    choices_PK = np.zeros((len(tried), len(keys)))
    for row, proposal in enumerate(tried):
        for key in enumerate(proposal.choice):
            if key in column:
                choices_PK[row, column[key]] = 1
    seen = {key for key in keys if choices_PK[:, column[key]].any()}
    of_base = base.ratio or 1.0
    timed = [row for row, trial in enumerate(tried) if trial.ratio is not None]
    ratios_P = np.array([(tried[row].ratio or of_base) / of_base - 1.0 for row in timed])
    errors_P = np.array([math.hypot(tried[row].error / of_base, LEAST_ERROR) for row in timed])
    latency_K = _ridge(choices_PK[timed] / errors_P[:, None], ratios_P / errors_P, 1 / _PRIOR)
    noise_P = np.array([max(trial.noise, _LEAST_NOISE) for trial in tried])
    added_P = np.array([max(trial.noise - base.noise, 0.0) for trial in tried])
    noise_K = optimize.nnls(choices_PK / noise_P[:, None], added_P / noise_P)[0] if tried else np.zeros(len(keys))
    sizes_P = np.array([float(trial.size_bytes - base.size_bytes) for trial in tried])
    size_K = _ridge(choices_PK, sizes_P, 1e-6)
    with_memory = [
        row for row, trial in enumerate(tried) if trial.memory_bytes is not None and base.memory_bytes is not None
    ]
    memories_P = np.array([float((tried[row].memory_bytes or 0) - (base.memory_bytes or 0)) for row in with_memory])
    memory_K = _ridge(choices_PK[with_memory], memories_P, 1e-6)
    latency, noise, size, memory = (
        {key: float(values[column[key]]) for key in keys if key in seen}
        for values in (latency_K, noise_K, size_K, memory_K)
    )
    own_K = _told_apart(choices_PK[timed] if timed else choices_PK)
    return Effects(
        ratio=latency,
        noise=noise,
        size_bytes=size,
        memory_bytes=memory,
        distinct=frozenset(key for key in seen if own_K[column[key]]),
    )


def _told_apart(rows_PK: np.ndarray) -> np.ndarray:
    """Whether least squares determines each effect: its unit vector lies in the space of the rows."""
    if not rows_PK.size:
        return np.zeros(rows_PK.shape[1], bool)
    _, sizes_R, space_RK = np.linalg.svd(rows_PK, full_matrices=False)
    space_RK = space_RK[sizes_R > _RANK * sizes_R[0]]
    return (space_RK**2).sum(axis=0) > 1 - _RANK


def _ridge(rows_PK: np.ndarray, values_P: np.ndarray, weight: float) -> np.ndarray:
    """Least squares with a weight on small effects."""
    number = rows_PK.shape[1]
    whole = np.vstack([rows_PK, weight * np.eye(number)])
    return np.linalg.lstsq(whole, np.concatenate([values_P, np.zeros(number)]), rcond=None)[0]
