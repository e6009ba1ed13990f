"""Selection of the fastest: hand values, and claims that must hold although the data chose which to make."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from bench.measure import selection, simultaneous, stats
from bench.measure.comparison import Fitted
from bench.measure.looks import nominal
from bench.measure.selection import Selection, select, selected_ratio
from support import known

WITHIN = 0.03
SD = 0.02
TRIALS = 400


def chosen(fitted: Fitted, *candidates: str, within: float = WITHIN) -> Selection:
    found = select(fitted, candidates or [name for name in fitted.names if name != "baseline"], within=within)
    assert found is not None
    return found


def equal(found: Selection) -> tuple[str, ...]:
    """The rivals that were shown to be as good as the fastest."""
    return tuple(name for name in found.rivals if found.regrets[name] <= found.within)


def normal(alpha: float) -> float:
    return float(-special.ndtri(alpha))


def test_fastest_comes_first_and_slower_cells_are_no_rivals() -> None:
    found = chosen(known.fitted({"slow": 0.8, "fast": 0.5, "near": 0.51}, 0.001))
    assert (found.first, found.rivals) == ("fast", ("near",))
    assert equal(found) == ("near",)


def test_regret_is_the_upper_end_of_the_difference_by_hand() -> None:
    """One rival: 4.5 % on one side, after a tenth of the 5 % was spent; its error is 0.01 times the root of 2."""
    found = chosen(known.fitted({"fast": 1.0, "near": 1.01}, 0.01))
    half = normal(0.045) * 0.01 * math.sqrt(2)
    assert found.alpha == pytest.approx(0.045)
    assert found.regrets["fast"] == pytest.approx(math.exp(-math.log(1.01) + half) - 1, rel=1e-6)
    assert found.regrets["near"] == pytest.approx(math.exp(math.log(1.01) + half) - 1, rel=1e-6)


def test_regret_is_over_the_most_dangerous_rival() -> None:
    """The noisy cell looks slowest, and may still be the fastest by most."""
    errors = {"fast": 0.001, "near": 0.001, "noisy": 0.05}
    found = chosen(known.fitted({"fast": 1.0, "near": 1.005, "noisy": 1.02}, errors))
    assert found.rivals == ("near", "noisy")
    alpha = simultaneous.level(np.diag([0.001, 0.001, 0.05]) ** 2, stats.ALPHA - selection.SPENT)
    over_noisy = -math.log(1.02) + normal(alpha) * math.hypot(0.001, 0.05)
    assert found.regrets["fast"] == pytest.approx(math.exp(over_noisy) - 1, rel=1e-6)
    over_noisy += math.log(1.005)
    assert found.regrets["near"] == pytest.approx(math.exp(over_noisy) - 1, rel=1e-6)


def test_the_only_candidate_has_no_regret() -> None:
    found = chosen(known.fitted({"fast": 0.5, "slow": 0.9}, 0.1), "slow")
    assert (found.first, found.rivals, found.regrets) == ("slow", (), {"slow": 0.0})


def test_first_that_is_sure_to_be_the_fastest_has_no_regret() -> None:
    found = chosen(known.fitted({"fast": 0.5, "near": 0.505}, 0.0001))
    assert found.rivals == ("near",)
    assert found.regrets["fast"] == 0
    assert 0.0099 < found.regrets["near"] < 0.011


def test_a_rival_is_as_good_where_its_regret_is_small() -> None:
    """Both look 1 % slower; of one it is known within 0.4 %, of the other within 9 %."""
    errors = {"fast": 0.001, "sure": 0.001, "unsure": 0.04}
    found = chosen(known.fitted({"fast": 1.0, "sure": 1.01, "unsure": 1.01}, errors, freedom=30))
    assert found.rivals == ("sure", "unsure")
    assert equal(found) == (), "either may be slower than the unsure one by more than 3 %"
    found = chosen(known.fitted({"fast": 1.0, "sure": 1.01, "unsure": 1.06}, {**errors, "unsure": 0.02}, freedom=30))
    assert equal(found) == ("sure",)


@pytest.mark.parametrize("single", ["fast", "near", "far"])
def test_no_regret_is_claimed_of_or_beside_a_single_launch(single: str) -> None:
    """A cell that is far behind may have one; its interval alone tells that it is no rival."""
    found = chosen(known.fitted({"fast": 0.5, "near": 0.505, "far": 0.9}, 0.0001, launches={single: 1}))
    assert found.rivals == ("near",)
    is_claimed = single == "far"
    assert (found.regrets["fast"] == 0) == is_claimed
    assert (equal(found) == ("near",)) == is_claimed
    assert all(math.isinf(regret) != is_claimed for regret in found.regrets.values())


@pytest.mark.parametrize(("behind", "regret"), [(0.52, math.inf), (0.53, 0.0)])
def test_a_rival_that_is_slower_by_five_percent_for_sure_may_have_a_single_launch(behind: float, regret: float) -> None:
    """Only a tolerance above 5 % has such rivals; one that is 4 % slower has to be launched again."""
    fitted = known.fitted({"fast": 0.5, "behind": behind}, 0.0001, launches={"behind": 1})
    found = chosen(fitted, within=0.1)
    assert found.rivals == ("behind",)
    assert found.regrets["fast"] == regret


def test_winner_without_rivals_has_no_regret_from_its_second_launch_on() -> None:
    for launches, regret in ((1, math.inf), (2, 0.0)):
        fitted = known.fitted({"fast": 0.5, "far": 0.9}, 0.0001, launches={"fast": launches, "far": 1})
        assert chosen(fitted).regrets == {"fast": regret}


def test_many_looks_leave_each_a_smaller_level() -> None:
    """Two rivals: of 2.5 % on one side each, sixteen looks have 0.4 % each."""
    fitted = known.fitted({"fast": 1.0, "near": 1.01, "other": 1.01}, 0.01)
    names = ["fast", "near", "other"]
    once, often = (select(fitted, names, within=WITHIN, looks=looks) for looks in (1, 16))
    assert once is not None
    assert often is not None
    assert once.alpha == pytest.approx(0.0246, rel=0.03)
    assert often.alpha == pytest.approx(nominal(2 * once.alpha, 16) / 2)
    assert once.alpha / 16 < often.alpha < once.alpha / 5
    assert often.regrets["fast"] > once.regrets["fast"]


def test_margin_decides_who_is_a_rival() -> None:
    fitted = known.fitted({"fast": 1.0, "slower": 1.04}, 0.001)
    assert chosen(fitted, within=0.03).rivals == ()
    assert chosen(fitted, within=0.05).rivals == ("slower",)


def test_ties_are_broken_by_name() -> None:
    assert chosen(known.fitted({"b": 1.0, "a": 1.0}, 0.01)).first == "a"


def test_the_baseline_may_win() -> None:
    found = chosen(known.fitted({"slow": 1.2}, 0.01), "baseline", "slow")
    assert (found.first, found.rivals) == ("baseline", ())


def test_candidates_that_never_ran_are_no_candidates() -> None:
    fitted = known.fitted({"fast": 0.5}, 0.01)
    assert chosen(fitted, "fast", "absent").first == "fast"
    assert select(fitted, ["absent"], within=WITHIN) is None
    assert select(fitted, [], within=WITHIN) is None
    assert selected_ratio(fitted, "fast", "absent", ["fast"]) is None


def test_far_candidates_cost_nothing() -> None:
    """Two rivals among a hundred that are far behind have the claims of two alone, and the ratio of one has its own."""
    two = {"fast": 0.5, "near": 0.505}
    many = {**two, **{f"far{number}": 0.7 for number in range(100)}}
    alone, among = (chosen(known.fitted(ratios, 0.01)) for ratios in (two, many))
    assert (among.first, among.rivals, among.regrets) == (alone.first, alone.rivals, alone.regrets)
    lone = {"fast": 0.5, **{f"far{number}": 0.9 for number in range(100)}}
    fitted = known.fitted(lone, 0.01)
    spent = fitted.effect("fast", "baseline").ratio(stats.ALPHA - selection.SPENT)
    assert selected_ratio(fitted, "fast", "baseline", list(lone)) == spent, "only telling them apart has a price"
    assert selected_ratio(fitted, "fast", "baseline", ["fast"]) == fitted.effect("fast", "baseline").ratio()


def test_rivals_widen_the_ratio_of_the_selected_by_their_number() -> None:
    """Ten cells that may each have been selected: 4.5 % over ten, on two sides."""
    ratios = {f"v{number}": 0.5 for number in range(10)}
    found = selected_ratio(known.fitted(ratios, 0.01), "v0", "baseline", list(ratios))
    assert found is not None
    assert math.log(found.high / found.value) == pytest.approx(normal(0.0045 / 2) * 0.01, rel=1e-6)
    assert found.value == pytest.approx(0.5)


def drawn(random: np.random.Generator, truths: np.ndarray, sds: np.ndarray) -> Fitted:
    """Estimates of cells whose true logarithms over the baseline's are known."""
    names = [f"v{number:02}" for number in range(len(truths))]
    values = truths + sds * random.normal(size=len(truths))
    return known.fitted(dict(zip(names, np.exp(values), strict=True)), dict(zip(names, sds.tolist(), strict=True)))


@pytest.mark.parametrize("gap", [0.0, pytest.param(0.01, marks=pytest.mark.thorough), 0.03])
def test_interval_of_the_best_of_thirty_covers_its_own_ratio(gap: float) -> None:
    """Cells that are equal, or slower by `gap` each: the one that looks fastest does so by luck."""
    random = np.random.default_rng(1)
    truths = gap * np.arange(30)
    plain = corrected = 0
    wider = []
    for _ in range(TRIALS):
        fitted = drawn(random, truths, np.full(30, SD))
        candidates = [name for name in fitted.names if name != "baseline"]
        first = chosen(fitted, *candidates).first
        truth = truths[int(first[1:])]
        effect = fitted.effect(first, "baseline")
        plain += abs(effect.value - truth) <= effect.half_width()
        ratio = selected_ratio(fitted, first, "baseline", candidates)
        assert ratio is not None
        corrected += math.log(ratio.low) <= truth <= math.log(ratio.high)
        wider.append(math.log(ratio.high / ratio.value) / effect.half_width())
    assert corrected / TRIALS >= 0.945
    if gap == 0:
        assert plain / TRIALS <= 0.7, "the usual interval is far from its 95 %"
    if gap == 0.03:
        assert np.mean(wider) <= 1.45, "the tenth of the cells that are near cost less than all thirty, a factor of 1.6"


@pytest.mark.parametrize(
    ("spread", "number"),
    [
        (0.0, 6),
        (0.0, 30),
        (0.02, 30),
        (0.2, 6),
        pytest.param(0.02, 6, marks=pytest.mark.thorough),
        pytest.param(0.2, 30, marks=pytest.mark.thorough),
    ],
)
def test_regrets_and_rivals_hold_for_all_cells_at_once(spread: float, number: int) -> None:
    """Cells of which some are noisy; spread evenly from the fastest on."""
    random = np.random.default_rng(2)
    truths, sds = np.linspace(0.0, spread, number), np.resize([0.005, 0.01, 0.03], number)
    regret_held = lost = 0
    for _ in range(TRIALS):
        found = chosen(drawn(random, truths, sds))
        behind = {name: math.expm1(truths[int(name[1:])]) for name in (found.first, *found.rivals)}
        regret_held += all(found.regrets[name] >= behind[name] for name in behind)
        good = {f"v{index:02}" for index in range(number) if truths[index] <= 0}
        lost += not good <= behind.keys()
    assert regret_held / TRIALS >= 0.945
    assert lost / TRIALS <= 0.055, "a cell that is as fast as any is not called slower"


@pytest.mark.parametrize(("sd", "number"), [(0.03, 30), (0.1, 14), pytest.param(0.1, 30, marks=pytest.mark.thorough)])
def test_equal_cells_are_rarely_shown_to_be_slower(sd: float, number: int) -> None:
    """The fastest of many equal cells looks fast by luck, and all others are compared with it."""
    random = np.random.default_rng(3)
    names = [f"v{index:02}" for index in range(number)]
    wrong = 0
    for _ in range(TRIALS):
        levels = sd * random.normal(size=number)
        found = chosen(known.fitted(dict(zip(names, np.exp(levels), strict=True)), sd))
        wrong += bool(found.slower)
    assert wrong <= 0.05 * TRIALS


def test_the_regret_of_a_cell_that_was_not_selected_is_over_those_that_may_be_faster() -> None:
    """Only one of the others is the fastest, and the data did not choose the cell: none needs a correction."""
    errors = {"own": 0.01, "a": 0.01, "b": 0.01, "far": 0.01}
    fitted = known.fitted({"own": 1.0, "a": 0.99, "b": 1.0, "far": 2.0}, errors)
    half = normal(0.05) * 0.01 * math.sqrt(2)
    expected = math.exp(-math.log(0.99) + half) - 1
    assert selection.regret(fitted, "own", ["a", "b", "far"]) == pytest.approx(expected, rel=1e-6)
    assert selection.regret(fitted, "own", ["far"]) == 0
    assert selection.regret(fitted, "own", []) == 0


@pytest.mark.parametrize(("single", "is_told"), [("own", False), ("near", False), ("far", True)])
def test_no_regret_of_a_cell_that_was_not_selected_is_told_of_single_launches(single: str, is_told: bool) -> None:
    fitted = known.fitted({"own": 1.0, "near": 0.99, "far": 2.0}, 0.01, launches={single: 1})
    assert math.isfinite(selection.regret(fitted, "own", ["near", "far"])) == is_told


def test_cells_that_are_slower_for_sure_are_named() -> None:
    found = chosen(known.fitted({"slow": 0.8, "fast": 0.5, "near": 0.51}, 0.001))
    assert found.slower == ("slow",)
    assert found.others == ("near", "slow")


def test_selection_for_another_merit_may_have_selected_any_cell_that_is_nearly_as_fast() -> None:
    """A cell that is 4 % slower for sure cannot be the fastest, but the smallest of those within 5 %."""
    fitted = known.fitted({"fast": 0.5, "small": 0.52}, 0.001)
    names = ["fast", "small"]
    fastest = selected_ratio(fitted, "fast", "baseline", names)
    smallest = selected_ratio(fitted, "small", "baseline", names, within=0.05)
    assert fastest is not None
    assert smallest is not None
    assert math.log(fastest.high / fastest.value) == pytest.approx(normal(0.045 / 2) * 0.001, rel=1e-6)
    assert math.log(smallest.high / smallest.value) == pytest.approx(normal(0.045 / 4) * 0.001, rel=1e-6)
