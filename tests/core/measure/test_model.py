"""The model of the measurement: differences, their errors, and what the launches of other cells tell of them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from bench.measure import comparison, joint
from bench.measure.joint import MAX_STEPS, SHOCK, STATE, Joint, Observation
from bench.measure.model import Request, fit
from bench.measure.prior import USUAL
from bench.measure.variances import LEAST_ERROR, error_of_sum, scaled, together
from bench.records.measurements import groups
from bench.records.store import Store
from support import priors

RESULTS = Path(__file__).parents[3] / "results" / "reference"


def observed(
    levels: dict[tuple[str, int], float], *, apart_s: float = 3600, variance: float = 0.0
) -> list[Observation]:
    """Launches by cell and block; cells named `a...` and `b...` run on programs of their own."""
    return [
        Observation(cell=cell, program=cell[0], block=block, time_s=apart_s * block, level=level, variance=variance)
        for (cell, block), level in levels.items()
    ]


def only(observations: list[Observation]) -> Request:
    (request,) = fit([observations])
    return request


def test_difference_of_cells_that_share_all_blocks_is_the_mean_difference() -> None:
    levels = {("a", 0): 1.0, ("b", 0): 1.5, ("a", 1): 2.0, ("b", 1): 2.6, ("a", 2): 0.5, ("b", 2): 1.2}
    found = only(observed(levels)).difference("b", "a")
    assert found.value == pytest.approx(0.6)
    assert found.error > 0
    back = only(observed(levels)).difference("a", "b")
    assert (back.value, back.error, back.freedom) == pytest.approx((-found.value, found.error, found.freedom))


def test_cells_that_never_met_are_compared_through_what_connects_them() -> None:
    levels = {("a", 0): 1.0, ("b", 0): 1.5, ("b", 1): 5.5, ("b2", 1): 5.8}
    request = only(observed(levels))
    assert request.difference("b2", "a").value == pytest.approx(0.8)
    assert request.difference("b2", "a").error > request.difference("b2", "b").error


def test_cells_of_one_program_share_its_state() -> None:
    """The machine slows a program in one block: the difference of two of its cells does not suffer."""
    random = np.random.default_rng(3)
    levels = {}
    for block in range(8):
        state = 0.2 * random.normal()
        for cell in ("a", "b1", "b2", "c"):
            levels[cell, block] = (state if cell[0] == "b" else 0.0) + 0.003 * random.normal()
    request = only(observed(levels))
    between, beside = request.difference("b1", "b2"), request.difference("b1", "a")
    assert between.half_width() < 0.02
    assert beside.half_width() > 5 * between.half_width()
    assert abs(beside.value) < beside.half_width()
    shared = {
        program: request.effects[STATE, program].value + request.effects[SHOCK, program].value for program in "abc"
    }
    assert shared["b"] > 2 * max(shared["a"], shared["c"]), "two programs alone would not tell which of them it is"


def test_one_shock_among_many_blocks_hardly_moves_the_ratio_or_its_interval() -> None:
    """A program is slowed by 20 % in one of ten blocks, in both of its copies.

    Were shocks normal, the ratio would be 0.017 off.
    """
    noise = np.random.default_rng(4).normal(scale=0.004, size=(10, 4))
    found = {}
    for shock in (0.0, 0.2):
        launches = []
        for block in range(10):
            for number, cell in enumerate(("a", "a", "b", "c")):
                level = (
                    noise[block, number] + (0.5 if cell == "b" else 0.0) + (shock if cell == "a" and block == 3 else 0)
                )
                launches += observed({(cell, block): level}, apart_s=30)
        found[shock] = only(launches).difference("b", "a")
    assert found[0.2].value == pytest.approx(found[0.0].value, abs=0.004)
    assert found[0.2].half_width() < 1.7 * found[0.0].half_width()


def test_one_launch_is_enough_where_the_difference_is_large() -> None:
    found = only(observed({("a", 0): 1.0, ("b", 0): 1.7})).difference("b", "a")
    assert found.half_width() < 0.5
    assert found.p_value() < 0.01
    near = only(observed({("a", 0): 1.0, ("b", 0): 1.01})).difference("b", "a")
    assert near.p_value() > 0.5


def test_launches_of_other_cells_tell_how_far_to_believe_one_launch() -> None:
    """A cell with a single launch has the interval of its program's cells."""
    widths = []
    for sd in (0.002, 0.05):
        random = np.random.default_rng(5)
        names = [f"b{number}" for number in range(8)]
        levels = {(cell, block): sd * random.normal() for cell in ("a", *names) for block in range(4)}
        levels["b-single", 0] = 0.3
        widths.append(only(observed(levels)).difference("b-single", "b0").half_width())
    assert widths[0] < 0.5 * widths[1]


def two_requests(noise: dict[int, float], *, launches: int = 1) -> list[list[Observation]]:
    """Requests whose launches scatter differently; five blocks hold the baseline twice, and other cells once in all."""
    random = np.random.default_rng(8)
    requests = []
    for sd in noise.values():
        levels = [("a", block, sd * random.normal()) for block in range(5) for _ in range(2)]
        for number in range(10):
            for launch in range(launches):
                levels.append((f"{'bc'[number % 2]}{number}", (number + launch) % 5, sd * random.normal()))
        requests.append([observed({(cell, block): level}, apart_s=60)[0] for cell, block, level in levels])
    return requests


def test_launches_of_a_request_are_as_noisy_as_its_baseline_shows() -> None:
    """Its pairs differ by 0.4 % in one request and by 8 % in the other; all other cells have a single launch."""
    quiet, noisy = fit(two_requests({0: 0.004, 1: 0.08}))
    typical = [float(np.exp(np.log(request.variances[1:]).mean() / 2)) for request in (quiet, noisy)]
    assert typical[0] < 0.012
    assert typical[1] > 0.03
    widths = [request.difference("b0", "b2").half_width() for request in (quiet, noisy)]
    assert widths[1] > 1.6 * widths[0]


def test_a_noisy_cell_is_known_by_its_own_launches() -> None:
    """Five launches of one cell scatter by 10 % among cells that scatter by 0.5 %."""
    random = np.random.default_rng(9)
    names = ("a", *(f"b{number}" for number in range(8)))
    levels = {(cell, block): 0.005 * random.normal() for cell in names for block in range(5)}
    levels |= {("b0", block): 0.1 * random.normal() for block in range(5)}
    request = only(observed(levels))
    found = dict(zip(request.cells, np.sqrt(request.variances), strict=True))
    assert found["b0"] > 0.04
    assert all(found[name] < 0.012 for name in names if name != "b0")


def test_launches_close_in_time_tell_less_than_launches_far_apart() -> None:
    levels = {(cell, block): 0.001 * block * len(cell) for cell in ("a", "b") for block in range(4)}
    near = only(observed(levels, apart_s=5)).difference("a", "b")
    far = only(observed(levels, apart_s=3600)).difference("a", "b")
    assert near.error > 1.5 * far.error


def test_launches_never_agree_better_than_their_passes() -> None:
    levels = {(cell, block): 1.0 for cell in ("a", "b") for block in range(6)}
    found = only(observed(levels, variance=0.04**2)).difference("a", "b")
    assert found.error >= 0.04 * math.sqrt(2 / 6)


def test_cells_that_nothing_connects_are_an_error() -> None:
    with pytest.raises(ValueError, match="no block connects"):
        only(observed({("a", 0): 1.0, ("b", 1): 1.0}))
    with pytest.raises(KeyError):
        only(observed({("a", 0): 1.0, ("b", 0): 1.0})).difference("a", "c")


def test_intervals_hold_the_truth_under_a_machine_state_that_lasts() -> None:
    random = np.random.default_rng(7)
    held = []
    for _ in range(60):
        state = {"a": 0.03 * random.normal(), "b": 0.01 * random.normal()}
        levels = {}
        for block in range(4):
            state = {
                key: 0.7 * value + math.sqrt(0.51) * sd * random.normal()
                for (key, value), sd in zip(state.items(), (0.03, 0.01), strict=True)
            }
            for number, program in enumerate("abbbbb"):
                levels[f"{program}{number}", block] = 0.1 * number + state[program] + 0.007 * random.normal()
        request = only(observed(levels, apart_s=107))
        for one, other in itertools.combinations(range(6), 2):
            found = request.difference(f"{'abbbbb'[one]}{one}", f"{'abbbbb'[other]}{other}")
            held.append(abs(found.value - 0.1 * (one - other)) <= found.half_width())
    assert np.mean(held) >= 0.93


def shared(random: np.random.Generator, num_places: int, place: float, *, told: bool = True) -> list[Observation]:
    """Two programs in 60 blocks, which are run by several machines in turn; each machine acts on programs for good."""
    effects = place * random.normal(size=(num_places, 2))
    found = []
    for block in range(60):
        where = block % num_places
        for number, cell in enumerate(("a", "b")):
            level = 0.1 * number + effects[where, number] + 0.2 * where + 0.004 * random.normal()
            (one,) = observed({(cell, block): level}, apart_s=600)
            found.append(dataclasses.replace(one, place=f"m{where}" if told else ""))
    return found


def test_what_machines_of_a_kind_do_differently_is_part_of_the_interval() -> None:
    """Of a ratio of the kind: four machines tell less than 60 launches seem to."""
    held = {
        told: np.mean(
            [
                abs(found.value - 0.1) <= found.half_width()
                for seed in range(40)
                for found in [
                    only(shared(np.random.default_rng(seed), 4, 0.02, told=told)).difference("b", "a"),
                ]
            ]
        )
        for told in (True, False)
    }
    assert held[True] >= 0.93
    assert held[False] < 0.85, "without the machines' names"


def test_the_effect_of_each_machine_on_a_program_is_predicted() -> None:
    """Machines 0 and 1 differ by 12 % in the ratio of the programs, whatever their speed."""
    launches = []
    for block in range(24):
        for number, cell in enumerate(("a", "b")):
            level = 0.2 * (block % 2) + (0.06 if block % 2 else -0.06) * number
            launches += [dataclasses.replace(observed({(cell, block): level})[0], place=f"m{block % 2}")]
    found = only(launches).machine_effects

    assert set(found) == {(program, place) for program in "ab" for place in ("m0", "m1")}
    between = {place: found["b", place].value - found["a", place].value for place in ("m0", "m1")}
    assert 0.035 < between["m1"] < 0.065, "drawn towards no effect"
    assert between["m0"] == pytest.approx(-between["m1"])
    assert all(effect.error > 0 for effect in found.values())


def test_one_machine_alone_has_no_effect_of_its_own() -> None:
    named, unnamed = (only(shared(np.random.default_rng(1), 1, 0.02, told=told)) for told in (True, False))
    assert named.machine_effects == {}
    assert named.difference("b", "a") == unnamed.difference("b", "a")


def test_latency_where_each_request_ran_on_another_machine_alone() -> None:
    """The machine's state cannot be told from the requests then, and is what was believed."""
    requests = [
        [
            dataclasses.replace(one, place=place)
            for one in observed({(cell, block): 1.0 + 0.1 * block for cell in ("a", "b") for block in range(3)})
        ]
        for place in ("m0", "m1")
    ]
    for request in fit(requests):
        assert request.latency("a").half_width() < 1.0


def test_state_that_one_request_shows_is_known_in_another() -> None:
    """Program b slows by a fifth for ten minutes: a request that ran only then has the ratio of the others."""
    slowed = {block: 0.2 if 10 <= block < 20 else 0.0 for block in range(30)}
    noise = np.random.default_rng(2).normal(scale=0.003, size=(30, 2))
    levels = {("a", block): noise[block, 0] for block in slowed}
    levels |= {("b", block): 0.5 + slowed[block] + noise[block, 1] for block in slowed}
    first = observed(levels, apart_s=60)
    second = [
        Observation(cell=cell, program=cell, block="late", time_s=60 * 15, level=level, variance=0.0)
        for cell, level in (("a", 0.0), ("b", 0.3 + 0.2))
    ]
    alone, (_, beside) = only(second), fit([first, second])
    assert alone.difference("b", "a").value == pytest.approx(0.5)
    assert 0.3 < beside.difference("b", "a").value < 0.4


def test_blocks_of_the_same_minutes_show_one_state_of_the_machine() -> None:
    """Two requests whose blocks take turns tell hardly more of the machine than one of them alone."""
    random = np.random.default_rng(6)
    states = 0.1 * random.normal(size=6)

    def request(name: str) -> list[Observation]:
        levels = {(f"a-{name}", block): states[block] for block in range(6)}
        return observed({**levels, **{(f"b-{name}", block): states[block] for block in range(6)}}, apart_s=120)

    alone, near = (fit(requests)[0].latency("a-0") for requests in ([request("0")], [request("0"), request("1")]))
    far = observed({(f"{cell}-1", block): states[block] for cell in "ab" for block in range(6)}, apart_s=120)
    later = [dataclasses.replace(seen, time_s=seen.time_s + 1e6) for seen in far]
    apart = fit([request("0"), later])[0].latency("a-0")
    assert near.freedom < 1.1 * alone.freedom
    assert apart.freedom > 1.3 * alone.freedom


def test_all_that_is_known_of_a_variance_is_believed_until_launches_tell() -> None:
    """One launch of each of two programs tells nothing of any variance; many blocks tell nearly all of it."""
    shares = {}
    random = np.random.default_rng(2)
    for blocks in (1, 3, 30):
        levels = {(cell, block): 0.02 * random.normal() for block in range(blocks) for cell in ("a", "b", "b2", "b3")}
        shares[blocks] = only(observed(levels)).believed_share("b", "a")
    assert shares[1] == pytest.approx(1.0, abs=0.15)
    assert shares[1] > shares[3] > shares[30]
    assert shares[30] < 0.35


def test_prior_is_all_of_what_is_known_where_launches_change_nothing() -> None:
    levels = {(cell, block): 0.1 * block for block in range(5) for cell in ("a", "b")}
    (found,) = fit([observed(levels)], priors.firm(launch=0.01, state=0.02, shock=0.01))
    assert found.believed_share("b", "a") == pytest.approx(1.0, abs=1e-6)
    assert found.believed_share("a", "a") == 0.0


def test_the_error_of_a_pair_is_of_all_parts_and_copies_no_matrix_of_all_cells() -> None:
    random = np.random.default_rng(9)
    names = ["a", *(f"b{number}" for number in range(60))]
    request = only(observed({(name, block): 0.01 * random.normal() for name in names for block in range(2)}))
    first = request.difference("b1", "b2")
    known, rows, signs = request._components, [request.cells.index("b1"), request.cells.index("b2")], np.array([1, -1])
    variance_P = np.maximum(0, np.einsum("r,prs,s->p", signs, known.covariances[:, rows][:, :, rows], signs))
    parts = []
    for own_p in np.split(np.arange(len(variance_P)), [known.num_launches]):
        parts.append((variance_P[own_p].sum(), error_of_sum(variance_P[own_p], known.errors[np.ix_(own_p, own_p)])))
    (launches, launch_error), (effects, effect_error) = parts
    variance, freedom = together([scaled(launches, launch_error), (effects, 2 / max(effect_error, LEAST_ERROR))])
    np.testing.assert_allclose((first.error**2, first.freedom), (variance, freedom), rtol=1e-12)

    tracemalloc.start()
    request.difference("b3", "b4")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < known.errors.nbytes / 2


def plain(found: Joint) -> Joint:
    """The estimate by the steps alone, until these are a millionth: what `Joint.fit` comes to in fewer."""
    for _ in range(400):
        before_V = found._logarithms()
        found._step()
        if np.abs(found._logarithms() - before_V).max() < 1e-6:
            break
    else:
        raise AssertionError("no rest")
    found._estimate()
    found._estimator_EN = found._estimator()
    return found


def published() -> list[list[Observation]]:
    (machine,) = {path.parent.name for path in RESULTS.glob("*/*.jsonl")}
    records = Store(RESULTS, machine).contents().current
    return [seen for seen, _ in comparison.observed(groups(records)[False]) if seen]


def simulated(seed: int) -> list[list[Observation]]:
    """Two requests on three programs with states and launches of several sizes; one launch in ten is 20 % slower."""
    random = np.random.default_rng(seed)
    requests = []
    for request in range(2):
        launches = []
        for block in range(8):
            states = dict(zip("abc", (0.06, 0.01, 0.03) * random.normal(size=3), strict=True))
            cells = ["a0", "a0", *(f"{'abc'[number % 3]}{number}" for number in range(1, 12))]
            for cell in cells:
                noise = (0.003, 0.03, 0.01)[int(cell[1:]) % 3] * random.normal() + 0.2 * (random.random() < 0.1)
                level = states[cell[0]] + noise
                launches += observed({(cell, block): level}, apart_s=200, variance=0.004**2)
                launches[-1] = dataclasses.replace(launches[-1], time_s=200 * block + 100 * request)
        requests.append(launches)
    return requests


@pytest.mark.parametrize("sweep", [published, *(functools.partial(simulated, seed) for seed in range(3))])
def test_the_estimate_is_where_its_steps_come_to_rest(sweep: Callable[[], list[list[Observation]]]) -> None:
    """Within 1 % of the error of each variance and of each level, and in few steps."""
    requests = sweep()
    with threadpool_limits(1, user_api="blas"):
        found, rest = Joint(requests, USUAL), plain(Joint(requests, USUAL))
        found.fit()
    assert found.has_converged
    assert found.num_steps <= MAX_STEPS / 2
    effect_errors = [math.sqrt(2 / effect.freedom) for effect in rest.effects.values()]
    errors = np.array([*effect_errors, *np.sqrt(np.diag(rest._launches.covariance_CC))])
    changes = (found._logarithms() - rest._logarithms())[: len(errors)]
    assert np.abs(changes / errors).max() < 0.01
    for number in np.unique(rest.request_C):
        own = slice(*np.searchsorted(rest.request_C, [number, number + 1]))
        level_errors = np.sqrt(np.diagonal(rest.components(own, number).covariances.sum(axis=0)))[:-1]
        changes = (found.components(own, number).values - rest.components(own, number).values)[:-1]
        assert np.abs(changes / level_errors).max() < 0.01


def test_an_estimate_that_has_not_come_to_rest_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = simulated(0)
    assert fit(requests)[0].has_converged
    monkeypatch.setattr(joint, "MAX_STEPS", 3)
    assert not fit(requests)[0].has_converged
