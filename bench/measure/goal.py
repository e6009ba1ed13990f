"""When a cell has been measured enough."""

from __future__ import annotations

import dataclasses

from bench.measure import stats
from bench.measure.comparison import Comparison
from bench.measure.questions import Aims

REGRESSION, FINE = "regression", "fine"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goal:
    """When a cell has been measured enough: its questions are answered, or it has all the launches that it may have.

    Attributes:
        aims: the precision at which questions count as answered.
        tolerance: ask only whether the cell is slower than its baseline by more than this share; None for the questions
            of a sweep.
        min_launches: fewest launches of a cell.
        max_launches: most launches of a cell.
        budget_s: seconds for all measuring; None is no limit.
        second_s: seconds after the budget in which cells that may be the fastest and have one launch get another: one
            launch bounds no regret; the blocks of such launches are not cut.
        is_brief: whether the first launch of a cell is to tell no more than whether the cell may be the fastest.
    """

    aims: Aims = Aims()
    tolerance: float | None = None
    min_launches: int = 1
    max_launches: int = 16
    budget_s: float | None = None
    second_s: float = 0.0
    is_brief: bool = False

    def looks(self) -> tuple[int, ...]:
        """Numbers of launches after which the tolerance is asked about: each look may be wrong, so they are few."""
        numbers = []
        launches = self.min_launches
        while launches < self.max_launches:
            numbers.append(launches)
            launches *= 2
        return (*numbers, self.max_launches)

    def regression(self, comparison: Comparison) -> str:
        """Whether the cell is slower by more than the tolerance: `regression`, `fine` or `undecided`.

        The whole interval must lie on one side of the tolerance and outside the noise floor. It is the interval of 95 %
        over all looks together (Bonferroni), so wider than that of `Comparison.ratio`.
        """
        if comparison.effect is None or comparison.num_launches < self.min_launches:
            return stats.UNDECIDED
        assert self.tolerance is not None
        ratio = comparison.effect.ratio(stats.ALPHA / len(self.looks()))
        if ratio.low > 1 + max(self.tolerance, stats.NOISE_FLOOR):
            return REGRESSION
        return FINE if ratio.high < 1 + self.tolerance else stats.UNDECIDED
