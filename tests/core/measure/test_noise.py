"""How noisy the machine was: sweeps that are drawn from machines of which the noise is known."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from bench.measure import comparison, noise
from bench.measure.comparison import CELL, CONTROL, REFERENCE, Group, Series
from bench.measure.launch import Launch
from support import records as made

PROGRAMS = ("pytorch", "onnxruntime", "openvino", "litert")
NUM_BLOCKS, NUM_CELLS, PASSES = 12, 3, 8


def sweep(times: float, seed: int) -> list[Group]:
    """A sweep with the states, shocks and launches of an idle machine, so many times as large.

    Blocks are hours apart, so that each has states of its own.
    """
    rng = np.random.default_rng(seed)
    names = [(f"{program}-{number}", program) for program in PROGRAMS for number in range(NUM_CELLS)]
    state = times * float(np.sqrt(noise.IDLE.state**2 + noise.IDLE.own_state**2 + noise.IDLE.shock**2))
    launches: dict[str, list[Launch]] = {name: [] for name in ("baseline", *dict(names))}
    for block in map(str, range(NUM_BLOCKS)):
        states, machine = {program: rng.normal(0, state) for program in PROGRAMS}, rng.normal(0, 0.05)
        pass_P = rng.normal(0, 0.01, PASSES)
        roles = [("baseline", PROGRAMS[0], REFERENCE), ("baseline", PROGRAMS[0], CONTROL)]
        for name, program, role in [*roles, *((name, program, CELL) for name, program in names)]:
            level = machine + states[program] + rng.normal(0, times * noise.IDLE.launch)
            times_P = 1e7 * np.exp(level + pass_P + rng.normal(0, 0.002, PASSES))
            steady = tuple((int(each),) for each in times_P)
            launches[name].append(made.launch(block, role, 1, steady_ns=steady, reference="baseline"))
    series = {
        name: Series(name=name, program=dict(names).get(name, PROGRAMS[0]), launches=own)
        for name, own in launches.items()
    }
    return [Group(baseline=series["baseline"], cells=[*series.values()])]


@pytest.mark.parametrize(("times", "low", "high"), [(1.0, 0.75, 1.25), (3.0, 2.2, 3.4)])
def test_intervals_are_as_many_times_as_wide_as_the_noise_is_large(times: float, low: float, high: float) -> None:
    found = []
    for seed in range(3):
        groups = sweep(times, seed)
        widenings = noise.widening(groups, comparison.fit(groups))
        assert len(widenings) == len(PROGRAMS) * NUM_CELLS, "the baseline has none"
        typical = noise.typical(widenings, [*widenings])
        assert typical is not None
        found.append(typical)
    assert low < float(np.exp(np.mean(np.log(found)))) < high


def test_a_single_launch_tells_nothing_of_the_machine() -> None:
    """The prior of the model is that of shared machines: its intervals are wider than those of an idle one."""
    groups = sweep(0.3, 1)
    one = [dataclasses.replace(cell, launches=cell.launches[:1]) for cell in groups[0].cells]
    first = dataclasses.replace(groups[0].baseline, launches=groups[0].baseline.launches[:2])
    groups = [Group(baseline=first, cells=[first, *one[1:]])]
    typical = noise.typical(noise.widening(groups, comparison.fit(groups)), [cell.name for cell in one])
    assert typical is not None
    assert 1.0 < typical < 2.5


def test_the_widening_is_that_of_the_intervals_that_are_shown() -> None:
    """Of two launches, the standard error is hardly larger than on an idle machine, and the interval far wider."""
    groups = sweep(1.0, 2)
    groups = [
        Group(
            baseline=dataclasses.replace(group.baseline, launches=group.baseline.launches[:4]),
            cells=[dataclasses.replace(cell, launches=cell.launches[:2]) for cell in group.cells[1:]],
        )
        for group in groups
    ]
    (fitted,), (idle,) = comparison.fit(groups), comparison.fit(groups, noise.IDLE)
    widenings = noise.widening(groups, [fitted])
    for name, found in widenings.items():
        own, usual = fitted.effect(name, "baseline"), idle.effect(name, "baseline")
        halves = [math.log(effect.ratio().high / effect.ratio().low) / 2 for effect in (own, usual)]
        assert found == pytest.approx(halves[0] / halves[1])
        assert found > 1.2 * own.error / usual.error


def test_the_typical_widening_is_a_geometric_mean_of_the_named_cells() -> None:
    assert noise.typical({"a": 1.0, "b": 4.0, "c": 100.0}, ["a", "b", "none"]) == pytest.approx(2.0)
    assert noise.typical({"a": 1.0}, ["b"]) is None


def test_lost_time_is_that_of_waiting_and_of_other_machines() -> None:
    lost = [
        made.launch("a", CELL, 1, run_delay_share=0.1, steal_share=0.2),
        made.launch("b", CELL, 1, run_delay_share=0.1),
        made.launch("c", CELL, 1),
    ]
    assert noise.lost_share(lost) == pytest.approx(0.2)
    assert noise.lost_share(lost[2:]) is None
