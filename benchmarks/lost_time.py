"""What time that launches lost to others does to their levels, by the launches of stored results.

Each launch is held against what all the others let expect of it, by the model of the measurement: by the share of its
time that it lost, how far launches are from that (root mean square), and how far they should be if lost time did
nothing. Then the further variance of a launch that lost the share s is looked for: of each formula, the logarithm of
the density of all launches, less that if lost time did nothing. `Prior.lost` is the factor of s squared.

Source of the residuals: Haslett and Hayes 1998, doi 10.1111/1467-9868.00128.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import stored
from scipy import stats

from bench.measure.joint import Joint, Observation
from bench.measure.prior import USUAL

FACTORS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6)
NOTHING = "0"
FORMULAS: dict[str, Callable[[float], float]] = {
    NOTHING: lambda _: 0.0,
    "s^2 / 12": lambda share: share**2 / 12,
    **{
        f"({factor} s^2)^2": functools.partial(lambda factor, share: (factor * share**2) ** 2, factor)
        for factor in FACTORS
    },
}
"""Further variances of a launch, by the share that it lost; the second is that of what is evenly between 0 and s."""
SHARES = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 1.0)
LEAST_TOLD = 0.02
"""Of the information about a launch's level, the share that its own level must leave: others must tell something."""
TAIL = 5.0
"""Degrees of freedom of Student's t, by which launches are distributed: a few are far off for other reasons."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Left:
    """Launches, and what the others let expect of each.

    Attributes:
        distance_N: its level less the expected level.
        sd_N: standard deviation of that.
        share_N: share of its time that it lost.
        told_N: the variance of its level alone, over that of `distance_N`.
    """

    distance_N: np.ndarray  # noqa: N815
    sd_N: np.ndarray  # noqa: N815
    share_N: np.ndarray  # noqa: N815
    told_N: np.ndarray  # noqa: N815


def left(requests: Sequence[Sequence[Observation]], formula: Callable[[float], float]) -> Left:
    """What the model expects of each launch, where lost time makes the further variance of a formula."""
    prior = dataclasses.replace(USUAL, lost=1.0)
    share_N = np.array([seen.lost_share for own in requests for seen in own])
    scaled = [
        [dataclasses.replace(seen, lost_share=formula(seen.lost_share) ** 0.25) for seen in own] for own in requests
    ]
    joint = Joint(scaled, prior)
    joint.fit()
    distance_N, variance_N = joint.left_out()
    own_N = joint.variances[joint.cell_N] + joint.lost_N
    return Left(distance_N=distance_N, sd_N=np.sqrt(variance_N), share_N=share_N, told_N=own_N / variance_N)


def told(found: Sequence[Left], known: Sequence[Left]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distances, their standard deviations and the shares, of the launches of all sweeps that others tell enough of.

    Args:
        found: by sweep, as one formula has it.
        known: the same as another formula has it, which says of fewer launches that others tell enough.
    """
    kept = [other.told_N > LEAST_TOLD for other in known]
    columns = [(one.distance_N[own], one.sd_N[own], one.share_N[own]) for one, own in zip(found, kept, strict=True)]
    distance_N, sd_N, share_N = (np.concatenate(column) for column in zip(*columns, strict=True))
    return distance_N, sd_N, share_N


def main() -> None:
    """Print the distances by share, and the score of each formula."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="*", help="folders of results; those of the repository by default")
    arguments = parser.parse_args()
    found: dict[str, list[Left]] = {name: [] for name in FORMULAS}
    for searched in (False, True):
        for sweep in stored.sweeps(arguments.results or stored.published(), searched=searched):
            for name, formula in FORMULAS.items():
                found[name].append(left(sweep.observed(), formula))
    distance_N, sd_N, share_N = told(found[NOTHING], found[NOTHING])
    for low, high in itertools.pairwise(SHARES):
        own = (low <= share_N) & (share_N < high)
        if not own.any():
            continue
        far, expected = (float(np.sqrt(np.mean(values_N[own] ** 2))) for values_N in (distance_N, sd_N))
        relative = float(np.sqrt(np.mean((distance_N[own] / sd_N[own]) ** 2)))
        print(
            f"lost {low:.1%} to {high:.1%}: {own.sum()} launches are {far:.2%} off (root mean square), where "
            f"{expected:.2%} are expected; {relative:.2f} standard deviations"
        )
    base = None
    for name in FORMULAS:
        distance_N, sd_N, share_N = told(found[name], found[NOTHING])
        scale_N = sd_N * math.sqrt((TAIL - 2) / TAIL)
        score = float((stats.t(TAIL).logpdf(distance_N / scale_N) - np.log(scale_N)).sum())
        base = score if base is None else base
        print(f"variance {name}: {score - base:+.2f}")


if __name__ == "__main__":
    main()
