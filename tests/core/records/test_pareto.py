"""The Pareto front, by points placed by hand."""

from bench.records.pareto import pareto_front, uncovered


def test_keeps_the_points_that_nothing_beats_in_both_cheapest_first():
    points = [(3.0, 0.9), (1.0, 0.5), (2.0, 0.4), (2.0, 0.8), (4.0, 0.9)]
    assert pareto_front(points) == [1, 3, 0]


def test_lower_quality_can_be_better():
    points = [(3.0, 0.1), (1.0, 0.5), (2.0, 0.6), (2.0, 0.2)]
    assert pareto_front(points, higher_is_better=False) == [1, 3, 0]


def test_equal_points_stay_together():
    assert pareto_front([(1.0, 0.5), (2.0, 0.5), (1.0, 0.5)]) == [0, 2]


def test_at_one_cost_the_best_quality_wins():
    assert pareto_front([(1.0, 0.5), (1.0, 0.7)]) == [1]


def test_at_one_quality_the_lowest_cost_wins():
    assert pareto_front([(2.0, 0.5), (1.0, 0.5), (3.0, 0.5)]) == [1]


def test_a_missing_figure_is_never_on_it():
    assert pareto_front([(None, 0.9), (1.0, None), (0.1, float("nan")), (float("nan"), 1.0), (5.0, 0.1)]) == [4]


def test_zero_and_negative_figures_are_figures():
    assert pareto_front([(0.0, -3.0), (1.0, 0.0), (2.0, -1.0)]) == [0, 1]


def test_of_nothing_is_nothing():
    assert pareto_front([]) == []
    assert pareto_front([(None, None)]) == []


def test_of_one_point_is_that_point():
    assert pareto_front([(1.0, 1.0)], higher_is_better=False) == [0]


def test_points_that_differ_by_noise_alone_are_one() -> None:
    """By at most 1 in each figure: the first stands for those like it, and a point that is better in one stays."""

    def covers(one: tuple[int, int], other: tuple[int, int]) -> bool:
        return all(mine <= its + 1 for mine, its in zip(one, other, strict=True))

    assert uncovered([(10, 50), (11, 49), (12, 20), (13, 19), (40, 20)], covers) == {0, 2}
    assert uncovered([(10, 50), (10, 20)], covers) == {1}, "a later point may cover an earlier one"
    assert uncovered([], covers) == set()
