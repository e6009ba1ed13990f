"""Statistics: hand values, and simulations in which the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.measure import stats
from bench.measure.stats import Effect, Error, Estimate, Pairs

PASSES = 15


def constant(ratio: float, num_passes: int = PASSES) -> Pairs:
    return Pairs(cell_ns=(1000.0 * ratio,) * num_passes, reference_ns=(1000.0,) * num_passes)


def from_logs(*logs: float) -> Pairs:
    return Pairs(cell_ns=tuple(1000.0 * math.exp(log) for log in logs), reference_ns=(1000.0,) * len(logs))


class World:
    """Makes blocks whose noise is known: each worker has an offset of its own, and each burst another."""

    def __init__(self, *, launch_sd: float, pass_sd: float, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        # Of the difference of two workers, so each has its share.
        self._launch_sd, self._pass_sd = launch_sd / math.sqrt(2), pass_sd / math.sqrt(2)

    def worker(self, log_ratio: float = 0.0, more_launch_sd: float = 0.0) -> np.ndarray:
        offset = self._random.normal(log_ratio, self._launch_sd + more_launch_sd)
        return 1e6 * np.exp(self._random.normal(offset, self._pass_sd, PASSES))

    def cell(self, ratio: float, num_launches: int = 3, more_launch_sd: float = 0.0) -> tuple[Estimate, Estimate]:
        """The ratios of a cell, which may be noisier, and of the control, from blocks that hold both."""
        cells, controls = [], []
        for _ in range(num_launches):
            reference = tuple(self.worker())
            own = tuple(self.worker(math.log(ratio), more_launch_sd))
            cells.append(Pairs(cell_ns=own, reference_ns=reference))
            controls.append(Pairs(cell_ns=tuple(self.worker()), reference_ns=reference))
        found, control = stats.ratio(cells, controls), stats.ratio(controls, controls)
        assert found is not None
        assert control is not None
        return found, control

    def verdict(self, ratio: float, num_launches: int = 3) -> str:
        found, control = self.cell(ratio, num_launches)
        return stats.verdict(found, control, num_launches=num_launches, margin=0.02)


@pytest.mark.parametrize(
    ("values", "expected"), [([3.0], 3.0), ([1.0, 2.0], 1.5), ([9.0, 1.0, 2.0], 2.0), ([1.0, 2.0, 4.0, 100.0], 3.0)]
)
def test_centre_of_a_launch(values: list[float], expected: float) -> None:
    assert stats.centre(np.array(values)) == expected


def test_centre_does_not_move_for_a_stall() -> None:
    quiet = np.zeros(PASSES)
    stalled = quiet.copy()
    stalled[:7] = 1.0
    assert stats.centre(stalled) == 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 3.0], 1.0),  # the middle 0.5 -+ 0.71: positions 0 and 1
        ([9.0, 1.0, 5.0, 2.0], 4.0),  # 1.5 -+ 1: positions 0 and 3 of 1 2 5 9
        ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 80.0], 2.0),  # 4 -+ 1.5: positions 2 and 6
    ],
)
def test_error_of_the_centre(values: list[float], expected: float) -> None:
    assert stats.centre_error(np.array(values)) == expected


def test_error_of_one_value_is_unknown() -> None:
    assert stats.centre_error(np.array([1.0])) == math.inf


@pytest.mark.parametrize(("sd", "num_passes"), [(0.01, 15), (0.05, 15), (0.01, 60)])
def test_error_of_the_centre_is_its_standard_deviation(sd: float, num_passes: int) -> None:
    random = np.random.default_rng(1)
    launches = random.normal(0.0, sd, (2000, num_passes))
    claimed = math.sqrt(float(np.mean([stats.centre_error(launch) ** 2 for launch in launches])))
    actual = float(np.std([stats.centre(launch) for launch in launches]))
    assert 0.9 < claimed / actual < 1.5  # rounded outwards to whole positions, so rather too wide


@pytest.mark.parametrize("true_ratio", [0.1, 0.5, 1.0, 1.03, 7.0])
@pytest.mark.parametrize("num_launches", [1, 2, 5])
def test_ratio_is_exact_on_constant_data(true_ratio: float, num_launches: int) -> None:
    found = stats.ratio([constant(true_ratio)] * num_launches, [constant(1.0)] * num_launches)
    assert found is not None
    assert [found.value, found.low, found.high] == pytest.approx([true_ratio] * 3, rel=1e-12)
    assert found.half_width == pytest.approx(0, abs=1e-12)


def test_ratio_is_the_geometric_mean_of_its_launches() -> None:
    """A launch counts once, however many passes it has."""
    found = stats.ratio([constant(0.5), constant(2.0, 3 * PASSES)], [])
    assert found is not None
    assert found.value == pytest.approx(1.0)
    assert found.low * found.high == pytest.approx(1.0)
    assert found.low < 0.5
    assert found.high > 2


def test_interval_of_two_launches_without_control_by_hand() -> None:
    found = stats.ratio([from_logs(0.01, 0.01), from_logs(0.03, 0.03)], [])
    assert found is not None
    # Student's t with 1 degree of freedom is 12.706; the standard deviation is 0.02 / sqrt(2), its error 0.01.
    half = 12.7062 * 0.01
    assert math.log(found.value) == pytest.approx(0.02)
    assert [math.log(found.low), math.log(found.high)] == pytest.approx([0.02 - half, 0.02 + half], abs=1e-5)


def test_control_lends_its_spread_by_hand() -> None:
    """One launch has no spread of its own: its interval is that of the control, about the known zero."""
    found = stats.ratio([from_logs(0.1, 0.1)], [from_logs(0.01, 0.01), from_logs(-0.01, -0.01)])
    assert found is not None
    half = 4.302653 * 0.01  # Student's t with 2 degrees of freedom
    assert [math.log(found.low), math.log(found.high)] == pytest.approx([0.1 - half, 0.1 + half], abs=1e-6)


def test_passes_that_disagree_widen_the_interval_of_launches_that_agree() -> None:
    noisy = from_logs(*[-0.1, 0.1] * 10)
    found = stats.ratio([noisy, noisy], [constant(1.0)] * 2)
    assert found is not None
    assert found.high - found.low > 0.05


def test_no_launch_and_no_interval() -> None:
    assert stats.ratio([], [constant(1.0)]) is None
    lone = stats.ratio([constant(1.5)], [])
    assert lone is not None
    assert lone.value == pytest.approx(1.5)
    assert (lone.low, lone.high, lone.half_width) == (0.0, math.inf, math.inf)


def test_error_is_the_larger_of_both_levels() -> None:
    """Quantiles from a table: Student's with 4 degrees of freedom 2.776 (95 %) and 4.604 (99 %), normal 1.960."""
    across = Error(across=0.01, freedom=4, within=0.001, launches=3)
    assert across.half_width() == pytest.approx(0.02776, rel=1e-3)
    assert across.half_width(0.01) == pytest.approx(0.04604, rel=1e-3)
    assert Error(across=0.001, freedom=4, within=0.01, launches=3).half_width() == pytest.approx(0.0196, rel=1e-3)
    assert Error(across=0.0, freedom=0, within=0.0, launches=3).half_width() == math.inf


def test_quotient_adds_the_errors() -> None:
    one = Effect(value=0.3, errors=(Error(across=0.03, freedom=4, within=0.0, launches=3),))
    other = Effect(value=0.1, errors=(Error(across=0.04, freedom=4, within=0.0, launches=3),))
    found = (one - other).ratio()
    half = 0.05 * 2.77645
    assert math.log(found.value) == pytest.approx(0.2)
    assert [math.log(found.low), math.log(found.high)] == pytest.approx([0.2 - half, 0.2 + half], abs=1e-6)
    unknown = Effect(value=0.1, errors=(Error(across=0.0, freedom=0, within=0.0, launches=3),))
    assert [(one - unknown).ratio().low, (unknown - one).ratio().high] == [0.0, math.inf]


@pytest.mark.parametrize(("value", "p"), [(0.02776, 0.05), (-0.04604, 0.01), (0.0, 1.0), (1e4, stats.SMALLEST_P)])
def test_p_value(value: float, p: float) -> None:
    found = Effect(value=value, errors=(Error(across=0.01, freedom=4, within=0.0, launches=3),))
    assert found.p_value() == pytest.approx(p, rel=1e-3)
    assert Effect(value=value, errors=(Error(across=0.01, freedom=0, within=0.0, launches=3),)).p_value() == 1.0


def test_p_value_of_no_difference_is_small_as_often_as_it_says() -> None:
    world = World(launch_sd=0.01, pass_sd=0.01, seed=11)
    found = []
    for _ in range(400):
        pairs = [Pairs(cell_ns=tuple(world.worker()), reference_ns=tuple(world.worker())) for _ in range(4)]
        effect = stats.effect(pairs, [])
        assert effect is not None
        found.append(effect.p_value())
    for level in (0.05, 0.2, 0.5):
        assert sum(p <= level for p in found) / len(found) == pytest.approx(level, abs=0.06)


@pytest.mark.parametrize(
    ("launch_sd", "pass_sd", "num_launches"),
    [(0.0, 0.01, 3), (0.003, 0.01, 3), (0.01, 0.01, 3), (0.02, 0.005, 3), (0.01, 0.03, 2), (0.01, 0.02, 6)],
)
def test_interval_covers_the_truth(launch_sd: float, pass_sd: float, num_launches: int) -> None:
    world = World(launch_sd=launch_sd, pass_sd=pass_sd, seed=7)
    repeats, truth = 400, 1.3
    found = [world.cell(truth, num_launches)[0] for _ in range(repeats)]
    covered = sum(estimate.low <= truth <= estimate.high for estimate in found) / repeats
    assert 0.90 <= covered <= 0.99


@pytest.mark.parametrize(("noisy", "num_launches"), [(0.01, 3), (0.02, 3), (0.02, 6)])
def test_cell_noisier_than_its_baseline_speaks_for_itself(noisy: float, num_launches: int) -> None:
    world = World(launch_sd=0.002, pass_sd=0.005, seed=10)
    found = [world.cell(1.0, num_launches, noisy) for _ in range(400)]
    covered = sum(estimate.low <= 1 <= estimate.high for estimate, _ in found) / len(found)
    verdicts = [stats.verdict(*pair, num_launches=num_launches, margin=0.02) for pair in found]
    called = sum(verdict in (stats.FASTER, stats.SLOWER) for verdict in verdicts) / len(found)
    print(covered, called)
    assert covered >= 0.9
    assert called <= 0.05


@pytest.mark.parametrize(("launch_sd", "pass_sd"), [(0.0, 0.01), (0.005, 0.01), (0.02, 0.02)])
def test_identical_cells_rarely_have_a_winner(launch_sd: float, pass_sd: float) -> None:
    world = World(launch_sd=launch_sd, pass_sd=pass_sd, seed=8)
    verdicts = [world.verdict(1.0) for _ in range(300)]
    called = sum(verdict in (stats.FASTER, stats.SLOWER) for verdict in verdicts)
    assert called <= 0.02 * len(verdicts)


@pytest.mark.parametrize(("true_ratio", "expected"), [(1.03, "slower"), (1 / 1.03, "faster")])
def test_three_percent_is_found_at_low_noise(true_ratio: float, expected: str) -> None:
    world = World(launch_sd=0.003, pass_sd=0.005, seed=9)
    verdicts = [world.verdict(true_ratio) for _ in range(300)]
    assert verdicts.count(expected) >= 0.95 * len(verdicts)


@pytest.mark.parametrize(
    ("low", "high", "control", "num_launches", "expected"),
    [
        (0.90, 0.98, None, 2, "faster"),
        (1.02, 1.10, None, 2, "slower"),
        (0.99, 1.01, None, 2, "noise"),
        (0.97, 1.01, None, 2, "undecided"),
        (0.99, 1.03, None, 2, "undecided"),
        (0.90, 0.98, None, 1, "undecided"),  # one launch never has a winner
        (0.999, 1.001, None, 1, "undecided"),
        (0.90, 0.997, None, 2, "undecided"),  # it reaches into the noise floor of half a percent
        (0.991, 0.994, None, 2, "faster"),
        (1.006, 1.009, None, 2, "slower"),
        (0.985, 0.988, (0.99, 1.01), 2, "faster"),
        (0.985, 0.992, (0.99, 1.01), 2, "noise"),  # overlaps the control's interval
        (0.90, 0.98, (0.97, 1.03), 2, "undecided"),
        (1.02, 1.10, (0.97, 1.03), 2, "undecided"),
        (1.04, 1.10, (0.97, 1.03), 2, "slower"),
        (1.003, 1.004, (1.001, 1.002), 2, "noise"),  # a control that looks sharp does not lower the floor
    ],
)
def test_verdict(low: float, high: float, control: tuple | None, num_launches: int, expected: str) -> None:
    estimate = Estimate(value=(low + high) / 2, low=low, high=high)
    against = Estimate(value=1.0, low=control[0], high=control[1]) if control else None
    assert stats.verdict(estimate, against, num_launches=num_launches, margin=0.02) == expected


def test_half_width_is_a_share() -> None:
    assert Estimate(value=2.0, low=1.9, high=2.1).half_width == pytest.approx(0.05)


@pytest.mark.parametrize(("percent", "expected"), [(90, 64), (99, 662)])
def test_min_samples(percent: float, expected: int) -> None:
    assert stats.min_samples(percent) == expected


@pytest.mark.parametrize("percent", [50, 75, 90, 95, 99])
def test_min_samples_by_counting(percent: float) -> None:
    """With 99 % confidence at least two samples lie above the percentile, and with one sample fewer not."""
    share = percent / 100

    def chance_of_fewer_than_two_above(num: int) -> float:
        return share**num + num * (1 - share) * share ** (num - 1)

    smallest = stats.min_samples(percent)
    assert chance_of_fewer_than_two_above(smallest) <= 0.01 < chance_of_fewer_than_two_above(smallest - 1)


def test_percentile_is_the_nearest_rank() -> None:
    samples = np.random.default_rng(0).permutation(np.arange(1.0, 101.0))
    assert stats.percentile_ns(samples, 90) == 90.0
    assert stats.percentile_ns(samples[samples < 100], 90) == 90.0  # rank ceil(0.9 * 99) = 90
    assert stats.percentile_ns(np.arange(1.0, 65.0), 90) == 58.0  # rank ceil(57.6)


def test_percentile_below_the_bound_is_none() -> None:
    assert stats.percentile_ns(np.arange(1.0, 64.0), 90) is None
    assert stats.percentile_ns(np.arange(1.0, 65.0), 90) is not None
    assert stats.percentile_ns(np.arange(1.0, 662.0), 99) is None
    assert stats.percentile_ns(np.arange(1.0, 663.0), 99) == 656.0
    assert stats.percentile_ns(np.array([]), 90) is None


def test_median_of_passes() -> None:
    """A pass counts once: a slow one holds fewer samples, and would count for less than its time."""
    found = stats.median_ns([[[1, 2, 3], [10]], [[4, 5, 100]]])
    assert found is not None
    assert found.value == 5.0
    assert found.low <= found.value <= found.high
    assert found.low >= 2.0  # medians of the passes are 2, 10 and 5
    assert found.high <= 10.0


def test_median_of_constant_samples_is_exact() -> None:
    assert stats.median_ns([[[7] * 10] * 5] * 3) == Estimate(value=7.0, low=7.0, high=7.0)


def test_median_passes_over_empty_bursts() -> None:
    assert stats.median_ns([]) is None
    assert stats.median_ns([[[], []], []]) is None
    assert stats.median_ns([[[], [3]], []]) == Estimate(value=3.0, low=3.0, high=3.0)


def test_interval_of_the_median_knows_that_launches_differ() -> None:
    """Many samples of two launches that disagree are no precise median."""
    apart = stats.median_ns([[[100] * 50] * 20, [[120] * 50] * 20])
    assert apart is not None
    assert (apart.low, apart.high) == (100.0, 120.0)
    assert stats.median_ns([[[100] * 50] * 20, [[120] * 50] * 20]) == apart  # the same each time
