"""How noisy each kind of machine is, by its stored results, and which of its scales are not those of all machines.

A kind is a microarchitecture, as `bench.measure.processors` names it; whether a machine is virtual is not stored, and
sweeps on machines with graphics cards are left out. Every
sweep is fitted with a prior that hardly counts, so that its launches alone tell the scales: standard deviations of
states, shocks, launches and blocks. Two sweeps of one kind differ, too, by more than their errors. So a kind differs
from the others where the interval of its scale over theirs leaves 1 out, with what sweeps of a kind differ by as part
of the error, and corrected for the number of questions. `bench.measure.prior` has the scales that are believed in.

Sources: DerSimonian and Laird 1986, doi 10.1016/0197-2456(86)90046-2 (what sweeps differ by beyond their errors);
Bonferroni's correction.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import stored
from scipy import optimize, special
from threadpoolctl import threadpool_limits

from bench.measure.joint import OWN, STATE, Joint, Observation
from bench.measure.prior import USUAL, Prior
from bench.measure.processors import microarchitecture
from bench.measure.runtime_effects import SHOCK

WEAK = dataclasses.replace(USUAL, launch_common=3.0, freedom=0.1, block_freedom=0.1)
"""A prior beside which the launches of a sweep tell nearly all."""
LEAST_FREEDOM = 1.0
"""Fewest degrees of freedom of a scale in a sweep that tells something of it."""
ALPHA = 0.05
SPREADS = ("launch_request", "launch_program", "launch_own")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Told:
    """What a sweep tells of a scale: natural logarithm of the standard deviation, and the variance of its error."""

    log: float
    variance: float


def told(requests: Sequence[Sequence[Observation]]) -> dict[str, Told]:
    """The scales by a sweep's launches, by the name of the field of `Prior`; those without are left out."""
    with threadpool_limits(1, user_api="blas"):
        joint = Joint(requests, WEAK)
        joint.fit()
        found = {"launch": launch_scale(joint, WEAK)}
        evidence = joint.effect_evidence()
    for name, kind in (("state", STATE), ("own_state", OWN), ("shock", SHOCK)):
        own = [each for (of, _), each in evidence.items() if of == kind and each.freedom]
        # What one program tells of the others is bounded by how far programs differ, as in `variances.drawn`.
        weights = np.array([1 / (1 / WEAK.program_freedom + 1 / each.freedom) for each in own])
        if weights.sum() >= LEAST_FREEDOM:
            log = float(weights @ [each.log for each in own] / weights.sum())
            found[name] = Told(log=log / 2, variance=0.5 / weights.sum())
    block = joint.block_state
    if block.freedom >= LEAST_FREEDOM:
        found["block"] = Told(log=math.log(block.value) / 2, variance=0.5 / block.freedom)
    return found


def launch_scale(joint: Joint, prior: Prior) -> Told:
    """The typical standard deviation across launches of a sweep's cells."""
    log_C, covariance_CC = _logarithms(joint, prior)
    inverse_CC = np.linalg.inv(covariance_CC)
    return Told(log=float(inverse_CC.sum(axis=0) @ log_C / inverse_CC.sum()), variance=float(1 / inverse_CC.sum()))


def _logarithms(joint: Joint, prior: Prior) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the cells' standard deviations across launches, and their covariance about what all share."""
    log_C, freedom_C, _ = joint.launch_evidence()
    known = freedom_C > 0
    alike_CC = joint.alike(dataclasses.replace(prior, launch_common=0.0))[np.ix_(known, known)]
    return log_C[known] / 2, alike_CC / 4 + np.diag(0.5 / freedom_C[known])


def spreads(joints: Sequence[Joint]) -> dict[str, float]:
    """How far launches of requests, programs and cells differ: those that make the sweeps' cells most likely."""

    def unlikely(logs: np.ndarray) -> float:
        prior = dataclasses.replace(USUAL, **dict(zip(SPREADS, np.exp(logs), strict=True)))
        total = 0.0
        for joint in joints:
            log_C, covariance_CC = _logarithms(joint, prior)
            inverse_CC = np.linalg.inv(covariance_CC)
            weights_C = inverse_CC.sum(axis=0)
            left_C = log_C - weights_C @ log_C / weights_C.sum()
            total += np.linalg.slogdet(covariance_CC)[1] + math.log(weights_C.sum()) + left_C @ inverse_CC @ left_C
        return total

    start = np.log([getattr(USUAL, name) for name in SPREADS])
    found = optimize.minimize(unlikely, start, method="Nelder-Mead", bounds=[(-4, 1)] * 3, options={"xatol": 0.02})
    return dict(zip(SPREADS, map(float, np.exp(found.x)), strict=True))


def between(kinds: Mapping[str, Sequence[Told]]) -> float:
    """The variance of the sweeps of a kind about their kind's mean, beyond their errors."""
    excess = scale = 0.0
    for sweeps in kinds.values():
        weights = np.array([1 / each.variance for each in sweeps])
        logs = np.array([each.log for each in sweeps])
        mean = weights @ logs / weights.sum()
        excess += float(weights @ (logs - mean) ** 2) - (len(sweeps) - 1)
        scale += float(weights.sum() - (weights**2).sum() / weights.sum())
    return max(0.0, excess / scale) if scale > 0 else 0.0


def mean(sweeps: Sequence[Told], further: float) -> Told:
    """The mean of sweeps that differ by a further variance, and its error."""
    weights = np.array([1 / (each.variance + further) for each in sweeps])
    return Told(log=float(weights @ [each.log for each in sweeps] / weights.sum()), variance=float(1 / weights.sum()))


def over_others(kinds: Mapping[str, Sequence[Told]], kind: str, questions: int) -> tuple[float, float, float]:
    """How many times as large a kind's scale is as that of the others, with its interval."""
    further = between(kinds)
    own = mean(kinds[kind], further)
    others = mean([each for name, sweeps in kinds.items() if name != kind for each in sweeps], further)
    half = float(special.ndtri(1 - ALPHA / questions / 2)) * math.sqrt(own.variance + others.variance)
    difference = own.log - others.log
    return math.exp(difference), math.exp(difference - half), math.exp(difference + half)


def main() -> None:
    """Print the scales of all machines and of each kind, and which kinds differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="*", help="folders of results; those of the repository by default")
    arguments = parser.parse_args()
    scales: dict[str, dict[str, list[Told]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    joints = []
    for sweep in stored.sweeps(arguments.results or stored.published()):
        if sweep.facts.get("gpus"):
            print(f"{sweep.name}: left out, because most of its cells ran on a graphics card")
            continue
        requests = sweep.observed()
        kind = microarchitecture(sweep.facts) or "unknown"
        joints.append(Joint(requests, USUAL))
        joints[-1].fit()
        found = told(requests)
        for name, each in found.items():
            scales[name][kind].append(each)
        figures = "  ".join(f"{name} {math.exp(each.log):.2%}" for name, each in found.items())
        print(f"{sweep.name} ({kind}): {figures}", flush=True)
    print("launches differ by", "  ".join(f"{name} {value:.2f}" for name, value in spreads(joints).items()))
    questions = sum(len(kinds) for kinds in scales.values() if len(kinds) > 1)
    for name, kinds in scales.items():
        further = between(kinds)
        everyone = mean([each for sweeps in kinds.values() for each in sweeps], further)
        print(
            f"{name}: {math.exp(everyone.log):.2%} of all, within a factor of "
            f"{math.exp(2 * math.sqrt(everyone.variance)):.2f}; believed {getattr(USUAL, name):.2%}; "
            f"sweeps of a kind differ by a factor of {math.exp(math.sqrt(further)):.2f}"
        )
        for kind, sweeps in kinds.items() if len(kinds) > 1 else ():
            ratio, low, high = over_others(kinds, kind, questions)
            verdict = "as the others" if low <= 1 <= high else "DIFFERS"
            print(f"  {kind}, {len(sweeps)} sweeps: {ratio:.2f} times the others' [{low:.2f}, {high:.2f}]: {verdict}")


if __name__ == "__main__":
    main()
