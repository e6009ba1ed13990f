"""Comparison: launches meet by block, and cells through all the blocks that connect them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pytest

from bench.measure import comparison
from bench.measure.comparison import CELL, CONTENDER, CONTROL, REFERENCE, Comparison, Fitted, Group, Series
from bench.measure.launch import Launch
from bench.measure.stats import Effect
from support import priors
from support import records as made

PASSES = 6
MISSING = Comparison(effect=None, control=None, num_launches=0)
LAUNCH, STATE, SHOCK, BLOCK = 0.01, 0.02, 0.015, 0.05
NORMAL = 1.959964


def launch(block: str, role: str, ns: float, **more: object) -> Launch:
    return made.launch(block, role, 1, steady_ns=((ns, ns, 9 * ns),) * PASSES, **more)


def baseline(**speeds: float) -> list[Launch]:
    """Blocks by name, each with the machine's speed at that time."""
    blocks = speeds or {"a": 1000, "b": 2000}
    return [launch(block, role, ns) for block, ns in blocks.items() for role in (REFERENCE, CONTROL)]


def cell(**latencies: float) -> list[Launch]:
    return [launch(block, CELL, ns) for block, ns in latencies.items()]


def group(baseline: Sequence[Launch], programs: Mapping[str, str] | None = None, **cells: Sequence[Launch]) -> Group:
    """A group; its cells run the baseline's program unless another is named."""
    found = [
        Series(name=name, program=(programs or {}).get(name, "program"), launches=launches)
        for name, launches in cells.items()
    ]
    return Group(baseline=Series(name="baseline", program="program", launches=baseline), cells=found)


def fit(baseline: Sequence[Launch], programs: Mapping[str, str] | None = None, **cells: Sequence[Launch]) -> Fitted:
    """Fitted with variances that are known, so that errors can be computed by hand."""
    prior = priors.firm(launch=LAUNCH, state=STATE, shock=SHOCK, block=BLOCK)
    (found,) = comparison.fit([group(baseline, programs, **cells)], prior)
    return found


def ratio_of(found: Comparison) -> float:
    assert found.ratio is not None
    return found.ratio.value


def test_median_of_each_pass() -> None:
    found = made.launch("a", CELL, 1, steady_ns=((3, 1, 2), (10,), (4, 5)))
    assert found.medians_ns == (2.0, 10.0, 4.5)


def test_a_launch_meets_the_reference_of_its_own_block() -> None:
    """Block b ran on a machine twice as slow; the ratio does not see it."""
    found = fit(baseline(), one=cell(a=500, b=1000)).against_baseline("one")
    assert found.num_launches == 2
    assert ratio_of(found) == pytest.approx(0.5)
    assert found.verdict(0.02) == "faster"


def test_error_of_a_ratio_by_hand() -> None:
    """Two blocks of two references and a cell each: the variance is that of (1 + 1/2) / 2 launches."""
    found = fit(baseline(), one=cell(a=500, b=1000)).against_baseline("one")
    assert found.effect is not None
    assert found.effect.error == pytest.approx(LAUNCH * math.sqrt(0.75), rel=1e-3)
    assert found.effect.half_width() == pytest.approx(NORMAL * LAUNCH * math.sqrt(0.75), rel=1e-3)


def test_programs_have_states_and_shocks_that_do_not_cancel() -> None:
    """Hours lie between the blocks: each adds a state and a shock of both programs."""
    found = fit(baseline(), {"one": "other"}, one=cell(a=500, b=1000)).against_baseline("one")
    assert found.effect is not None
    assert found.effect.error == pytest.approx(math.sqrt((1.5 * LAUNCH**2 + 2 * STATE**2 + 2 * SHOCK**2) / 2), rel=1e-3)


def test_blocks_of_the_same_minute_share_their_states() -> None:
    """A second block tells of the launches and the shocks, and next to nothing of the state."""
    now = made.time_of("a")
    lines = [launch(block, role, 1000, time=now) for block in "ab" for role in (REFERENCE, CONTROL)]
    own = [launch(block, CELL, 500, time=now) for block in "ab"]
    found = fit(lines, {"one": "other"}, one=own).against_baseline("one")
    assert found.effect is not None
    assert found.effect.error == pytest.approx(math.sqrt((1.5 * LAUNCH**2 + 2 * SHOCK**2) / 2 + 2 * STATE**2), rel=1e-3)


def test_effects_are_those_of_generalized_least_squares() -> None:
    """Unequal blocks and two programs, against the textbook's formula with the covariance written out."""
    random = np.random.default_rng(2)
    seats = [(block, name) for block in "abcd" for name in ("baseline", "baseline", "one", "two", "three")]
    seats = [seat for index, seat in enumerate(seats) if index not in (3, 7, 9, 14, 17)]
    names, programs = ("baseline", "one", "two", "three"), {"one": "other", "three": "other"}
    latencies = 1000 * np.exp(random.normal(0, 0.1, len(seats)))
    lines: dict[str, list[Launch]] = {name: [] for name in names}
    seen: set[tuple[str, str]] = set()
    for (block, name), ns in zip(seats, latencies, strict=True):
        role = CELL if name != "baseline" else CONTROL if (block, name) in seen else REFERENCE
        seen.add((block, name))
        lines[name].append(launch(block, role, ns))
    design = np.array(
        [
            [float(name == other) for other in names] + [float(block == other) for other in "bcd"]
            for block, name in seats
        ]
    )
    same = [[(b, programs.get(n)) == (c, programs.get(m)) for c, m in seats] for b, n in seats]
    covariance = (STATE**2 + SHOCK**2) * np.array(same, float) + LAUNCH**2 * np.eye(len(seats))
    precision = np.linalg.inv(covariance)
    of_estimates = np.linalg.inv(design.T @ precision @ design)
    estimates = of_estimates @ design.T @ precision @ np.log(latencies)
    found = fit(lines.pop("baseline"), programs, **lines)
    for first in range(4):
        for second in range(first):
            effect = found.effect(names[first], names[second])
            weights = np.zeros(7)
            weights[[first, second]] = 1, -1
            assert effect.value == pytest.approx(weights @ estimates, abs=1e-6)
            assert effect.error == pytest.approx(math.sqrt(weights @ of_estimates @ weights), rel=1e-3)


def test_latency_is_that_of_the_usual_block() -> None:
    """Twice as slow and twice as fast: the usual speed lies between, and as many blocks vary by as much."""
    found = fit(baseline(a=500, b=2000), one=cell(a=250, b=1000))
    latency = found.latency_ns("one")
    assert latency is not None
    assert latency.value == pytest.approx(500)
    error = math.sqrt((LAUNCH**2 + STATE**2 + SHOCK**2 + BLOCK**2) / 2)
    assert math.log(latency.high / latency.value) == pytest.approx(NORMAL * error, rel=1e-3)
    of_baseline = found.latency_ns("baseline")
    assert of_baseline is not None
    assert of_baseline.value == pytest.approx(1000)
    assert found.latency_ns("unknown") is None


def test_cell_that_ran_in_a_slow_block_alone_is_not_slow() -> None:
    """Its latency is what the usual block would have shown, so latencies are in the order of the ratios."""
    found = fit(baseline(a=1000, b=1000, c=2000), one=cell(a=800, b=800), two=cell(c=1400))
    one, two = found.latency_ns("one"), found.latency_ns("two")
    assert one is not None
    assert two is not None
    assert two.value / one.value == pytest.approx(0.7 / 0.8)


def test_launch_of_a_block_that_the_baseline_lost_does_not_count() -> None:
    found = fit(baseline(), one=cell(a=500, gone=9999), two=cell(gone=7))
    assert found.against_baseline("one").num_launches == 1
    assert ratio_of(found.against_baseline("one")) == pytest.approx(0.5)
    assert found.names == ("baseline", "one")
    assert found.latency_ns("two") is None


def test_block_whose_reference_has_no_pass_does_not_count() -> None:
    """Its launches would be connected with nothing."""
    empty = made.launch("b", REFERENCE, 1, steady_ns=())
    found = fit([*baseline(a=1000), empty], one=cell(a=500, b=9999), two=cell(b=7))
    assert (found.names, found.num_launches) == (("baseline", "one"), {"baseline": 1, "one": 1})
    assert ratio_of(found.against_baseline("one")) == pytest.approx(0.5)


def test_launch_that_lost_its_last_passes_is_compared_in_the_others() -> None:
    whole = [made.launch("a", role, 1, steady_ns=((1000,),) * 3 + ((4000,),) * 6) for role in (REFERENCE, CONTROL)]
    cut = made.launch("a", CELL, 1, steady_ns=((500,),) * 3)
    assert ratio_of(fit(whole, one=[cut]).against_baseline("one")) == pytest.approx(0.5)


def test_no_common_block_no_verdict() -> None:
    found = fit(baseline(), one=[]).against_baseline("one")
    assert (found.ratio, found.num_launches, found.verdict(0.02)) == (None, 0, None)
    nothing = fit([])
    assert (nothing.names, nothing.control, nothing.latency_ns("baseline")) == ((), None, None)
    assert nothing.against_baseline("one") == nothing.between("baseline", "one") == MISSING
    with pytest.raises(KeyError):
        nothing.effect("baseline", "baseline")
    assert comparison.fit([]) == []


def test_reference_is_the_mean_of_both_copies() -> None:
    lines = baseline(a=1000, b=1000)
    lines[1], lines[3] = launch("a", CONTROL, 1000 * 1.1**2), launch("b", CONTROL, 1000 * 1.1**2)
    assert ratio_of(fit(lines, one=cell(a=1100, b=1100)).against_baseline("one")) == pytest.approx(1.0)


def test_control_is_the_second_copy_over_the_first() -> None:
    """Block d lost its second copy, and block e its first; the error is that of the three others."""
    lines = [launch(block, role, ns) for block in "abc" for role, ns in ((REFERENCE, 1000), (CONTROL, 1010))]
    lost = [launch("d", REFERENCE, 7), launch("e", CONTROL, 7)]
    found = fit([*lines, *lost]).control
    assert found is not None
    assert found.value == pytest.approx(math.log(1.01))
    assert found.error == pytest.approx(LAUNCH * math.sqrt(2 / 3), rel=1e-3)
    assert fit([*lines[2:], *lost]).control is None, "two blocks"


def test_control_of_many_blocks_has_a_smaller_error() -> None:
    found = fit(baseline(a=1000, b=1000, c=2000, d=500)).control
    assert found is not None
    assert (found.value, found.error) == (pytest.approx(0), pytest.approx(LAUNCH / math.sqrt(2), rel=1e-3))


def test_launches_of_a_restless_baseline_widen_every_ratio() -> None:
    """With the usual prior: launches of the baseline that differ by 10 % are no basis for a verdict on 3 %."""
    calm, restless = baseline(a=1000, b=1000), baseline(a=1000, b=1000)
    restless[1], restless[3] = launch("a", CONTROL, 1050), launch("b", CONTROL, 950)
    found = [
        comparison.fit([group(lines, one=cell(a=1030, b=1030))])[0].against_baseline("one")
        for lines in (calm, restless)
    ]
    assert found[0].effect is not None
    assert found[1].effect is not None
    assert found[1].effect.half_width() > 1.3 * found[0].effect.half_width()
    assert found[1].verdict(0.02) == "undecided"


def test_baseline_against_itself_is_one() -> None:
    lines = baseline()
    lines[1] = launch("a", CONTROL, 1010)
    found = fit(lines).against_baseline("baseline")
    assert found.num_launches == 2
    assert found.ratio is not None
    assert (found.ratio.value, found.ratio.low, found.ratio.high) == (1.0, 1.0, 1.0)


def test_baseline_may_be_among_its_cells() -> None:
    """Its launches are given twice, and count once."""
    once = group(baseline(), one=cell(a=500, b=1000))
    (twice,) = comparison.fit([Group(baseline=once.baseline, cells=[once.baseline, *once.cells])])
    (found,) = comparison.fit([once])
    assert twice.num_launches == {"baseline": 2, "one": 2}
    assert twice.effect("one", "baseline") == found.effect("one", "baseline")


def test_between_two_cells_of_the_same_blocks_the_baseline_does_not_matter() -> None:
    """Both are twice as slow in b than the baseline says."""
    found = fit(baseline(a=1000, b=1000), one=cell(a=600, b=2400), other=cell(a=500, b=2000)).between("one", "other")
    assert found.num_launches == 2
    assert ratio_of(found) == pytest.approx(1.2)
    assert found.effect is not None
    assert found.effect.error == pytest.approx(LAUNCH, rel=1e-3)


def test_between_two_cells_of_other_blocks_goes_through_the_baseline() -> None:
    lines = baseline(a=1000, c=4000)
    found = fit(lines, one=cell(a=600), other=cell(c=2000)).between("one", "other")
    assert (found.num_launches, ratio_of(found)) == (1, pytest.approx(0.6 / 0.5))
    assert found.effect is not None
    assert found.effect.error == pytest.approx(LAUNCH * math.sqrt(3), rel=1e-3), "of two cells and twice two copies"


def test_blocks_of_contenders_count_where_cells_connect_them() -> None:
    """Block x ran on a machine ten times as slow, without the baseline; block y has nobody who met the baseline."""
    contenders = {
        name: [*cell(**{block: ns}), launch("x", CONTENDER, slow)]
        for name, block, ns, slow in (("one", "a", 500, 5000), ("other", "b", 1200, 6000))
    }
    strangers = {name: [launch("y", CONTENDER, 700)] for name in ("third", "fourth")}
    found = fit(baseline(), **contenders, **strangers)
    assert found.num_launches == {"baseline": 2, "one": 2, "other": 2}
    assert ratio_of(found.between("one", "other")) == pytest.approx(500 / 600)
    assert ratio_of(found.against_baseline("one")) == pytest.approx(0.5)
    apart = fit(baseline(), one=cell(a=500), other=cell(b=1200))
    direct, through = (fitted.between("one", "other").effect for fitted in (found, apart))
    assert direct is not None
    assert through is not None
    assert direct.error < 0.8 * through.error


def test_without_their_role_launches_beside_no_baseline_do_not_count() -> None:
    found = fit(baseline(), one=[*cell(a=500), launch("x", CELL, 5000)], other=[*cell(b=1000), launch("x", CELL, 5000)])
    assert found.num_launches == {"baseline": 2, "one": 1, "other": 1}


def test_one_common_block_counts_beside_the_others() -> None:
    lines = baseline(a=1000, b=1000, c=4000)
    apart = fit(lines, one=cell(a=600), other=cell(c=2000)).effect("one", "other")
    also = fit(lines, one=cell(a=600, b=600), other=cell(c=2000, b=500)).effect("one", "other")
    assert also.value == pytest.approx(math.log(1.2))
    assert also.error < LAUNCH * math.sqrt(2) < apart.error


def test_between_a_cell_and_the_baseline_is_its_ratio() -> None:
    found = fit(baseline(), one=cell(a=500, b=1000))
    assert ratio_of(found.between("one", "baseline")) == pytest.approx(0.5)
    assert ratio_of(found.between("baseline", "one")) == pytest.approx(2.0)
    assert found.between("one", "baseline") == found.against_baseline("one")


def test_between_cells_that_were_never_compared() -> None:
    found = fit(baseline(a=1000, b=2000, c=1000), one=cell(x=1), other=cell(a=1))
    assert (found.between("one", "other").ratio, found.between("one", "other").num_launches) == (None, 0)
    assert found.between("other", "one").effect is None
    assert found.between("one", "other").control is not None


def test_groups_share_what_is_known_of_a_program() -> None:
    """One launch has the error that launches of the same program show in another group."""
    single = group(baseline(x=1000), single=cell(x=500))
    errors = []
    for spread in (0.0, 0.1):
        blocks = {f"b{number}": 1000.0 for number in range(8)}
        cells = {
            name: cell(
                **{
                    block: ns * (1 + spread * (-1) ** (number + index))
                    for index, (block, ns) in enumerate(blocks.items())
                }
            )
            for number, name in enumerate(("one", "two", "three"))
        }
        alone, _ = comparison.fit([single, group(baseline(**blocks), **cells)])
        errors.append(alone.effect("single", "baseline").error)
    assert errors[1] > 2 * errors[0]


def placed(*places: str) -> list[Fitted]:
    """One request with a block on each of these machines; empty for a launch without a machine's name."""
    blocks = {f"b{number}": 1000.0 * (number + 1) for number in range(len(places))}
    launches = [
        [msgspec.structs.replace(one, place=places[int(one.block[1:])] or None) for one in series]
        for series in (baseline(**blocks), cell(**{block: ns / 2 for block, ns in blocks.items()}))
    ]
    return comparison.fit([group(launches[0], {"fast": "other"}, fast=launches[1])])


def test_one_machine_of_a_fleet_is_as_a_machine_without_a_name() -> None:
    """Nothing tells a machine from the others of its kind where its results are alone."""
    named, mixed, without = placed("m", "m", "m"), placed("m", "", "m"), placed("", "", "")

    for found in (named, mixed):
        assert found[0].machine_effects == {}
        assert found[0].effect("fast", "baseline") == without[0].effect("fast", "baseline")


def test_launches_without_a_name_are_of_no_machine_that_is_shown() -> None:
    (found,) = placed("m", "n", "", "m", "n")

    assert set(found.machine_effects) == {(program, place) for program in ("program", "other") for place in ("m", "n")}


class Machine:
    """Blocks hours apart on a machine whose speed varies by 4 %, and that acts on each program by 2 % beside it."""

    def __init__(self, random: np.random.Generator, num_blocks: int, launch_sd: float) -> None:
        self.blocks = [f"block {number}" for number in range(num_blocks)]
        self._random, self._launch_sd = random, launch_sd
        self._speed = {block: 0.04 * random.normal() for block in self.blocks}
        programs = ("program", "other")
        self._state = {(block, program): 0.02 * random.normal() for block in self.blocks for program in programs}

    def launch(self, block: str, role: str, program: str, log: float) -> Launch:
        level = log + self._speed[block] + self._state[block, program] + self._launch_sd * self._random.normal()
        passes = 1e6 * np.exp(level + 0.005 * self._random.normal(size=PASSES))
        return made.launch(block, role, 1, steady_ns=tuple((ns,) for ns in passes))


@pytest.mark.parametrize(
    ("launch_sd", "num_blocks"), [(0.003, 2), pytest.param(0.02, 3, marks=pytest.mark.thorough), (0.02, 6)]
)
def test_intervals_of_latencies_and_ratios_cover_the_truth(launch_sd: float, num_blocks: int) -> None:
    """Of cells with one launch up to one in each block."""
    random = np.random.default_rng(12)
    truths = {f"v{number}": 0.1 * number for number in range(5)}
    held, latencies, ratios = [], [], []
    for _ in range(60):
        machine = Machine(random, num_blocks, launch_sd)
        cells = {
            name: [machine.launch(block, CELL, "other", log) for block in machine.blocks[: 1 + index]]
            for index, (name, log) in enumerate(truths.items())
        }
        lines = [
            machine.launch(block, role, "program", 0.0) for block in machine.blocks for role in (REFERENCE, CONTROL)
        ]
        (found,) = comparison.fit([group(lines, dict.fromkeys(truths, "other"), **cells)])
        for name, log in truths.items():
            latency, effect = found.latency_ns(name), found.effect(name, "baseline")
            assert latency is not None
            held.append(
                (latency.low <= 1e6 * math.exp(log) <= latency.high, abs(effect.value - log) <= effect.half_width())
            )
            latencies.append((math.log(latency.value / 1e6) - log, latency.half_width))
            ratios.append((effect.value - log, effect.half_width()))
    of_latency, of_ratio = np.mean(held, axis=0)
    assert of_latency >= 0.93
    assert of_ratio >= 0.93
    for errors, half_widths in (zip(*latencies, strict=True), zip(*ratios, strict=True)):
        assert np.median(half_widths) <= 3 * np.quantile(np.abs(errors), 0.95), "nor are they far too wide"


def test_change_from_one_run_to_another_is_that_of_the_ratios() -> None:
    """The machine is four times as slow in the second run, and the cell 20 % slower against its baseline."""
    before = fit(baseline(), one=cell(a=500, b=1000)).against_baseline("one")
    after = fit(baseline(c=4000, d=8000, e=8000), one=cell(c=2400, d=4800, e=4800)).against_baseline("one")
    found = comparison.change(after, before)
    assert found.num_launches == 2, "the fewer of both runs"
    assert ratio_of(found) == pytest.approx(0.6 / 0.5)
    assert found.verdict(0.02) == "slower"
    assert found.effect is not None
    assert found.effect.error == pytest.approx(LAUNCH * math.sqrt(0.75 + 0.5), rel=1e-3), "the variances add up"


def test_change_has_the_noise_of_both_controls() -> None:
    effect = Effect(value=0.0, error=0.01, freedom=4)
    before, after = (
        Comparison(effect=effect, control=Effect(value=value, error=error, freedom=1e9), num_launches=3)
        for value, error in ((math.log(1.25), 0.03), (0.0, 0.04))
    )
    control = comparison.change(after, before).control
    assert control is not None
    assert (control.value, control.error) == pytest.approx((math.log(0.8), 0.05))


def test_change_without_a_control_or_a_ratio() -> None:
    known = fit(baseline(), one=cell(a=500, b=1000)).against_baseline("one")
    alone = Comparison(effect=known.effect, control=None, num_launches=1)
    found = comparison.change(known, alone)
    assert (found.control, found.num_launches) == (None, 1)
    assert ratio_of(found) == pytest.approx(1.0)
    assert comparison.change(known, MISSING) == MISSING
    assert comparison.change(MISSING, known) == MISSING
