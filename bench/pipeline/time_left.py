"""The time of a sweep: what of it is kept for open questions, and how many cells can be begun in the rest."""

from __future__ import annotations

import math
import sys
import time

LEAST_SHARE = 1 / 3
"""Share of the budget that measuring gets in any case."""
_MOST_KEPT = 1 / 2
"""Share of the whole time that is kept for measuring at most, as where the budget is the whole time."""
_OPEN_SHARE = 2 / 3
"""Share of the time kept for measuring that is kept for open questions: first launches decide hardly anything."""
_CONTENDERS = 0.2
"""Verified cells of which more samples run later, because they may be the fastest: roughly their share."""


class TimeLeft:
    """The time that is left of a sweep, by `time.monotonic`.

    Args:
        ends_s: when all measuring is to end; None for no end.
        budget_s: the time for measuring; None for no limit.

    Attributes:
        measured_s: the time that was measured for.
    """

    def __init__(self, ends_s: float | None, budget_s: float | None) -> None:
        self._ends_s = ends_s
        self._budget_s = budget_s
        self._kept_s = 0.0
        if ends_s is not None and budget_s is not None:
            self._kept_s = min(budget_s, _MOST_KEPT * (ends_s - time.monotonic()))
        self._cell_s = 0.0
        self._launch_s = 0.0
        self.measured_s = 0.0

    def note_launches(self, seconds: float, num_cells: int) -> None:
        """So many cells had their first launch in this time."""
        self.measured_s += seconds
        if num_cells:
            self._launch_s = seconds / num_cells

    def note(self, seconds: float, num_cells: int) -> None:
        """So many cells were prepared and verified in this time that were not verified before."""
        if num_cells:
            self._cell_s = seconds / num_cells

    def num_in_time(self, num_verified: int, num_waiting: int) -> int:
        """How many more cells can be begun at the pace of the last, so that open questions keep their time.

        Any number where there is no end, or where no cell had to be verified yet.

        Args:
            num_verified: the cells that have been verified, of some of which more samples will run.
            num_waiting: those of them that have no launch yet.
        """
        if self._ends_s is None or self._budget_s is None or not self._cell_s:
            return sys.maxsize
        to_verify_s = _CONTENDERS * num_verified * self._cell_s
        to_launch_s = num_waiting * self._launch_s
        left_s = self._ends_s - time.monotonic() - _OPEN_SHARE * self._kept_s - to_verify_s - to_launch_s
        return max(0, math.floor(left_s / (self._cell_s + self._launch_s)))

    def is_too_late(self, compiling_s: float) -> bool:
        """Whether compiling for so long would leave measuring less than its least share of the budget."""
        if not compiling_s or self._ends_s is None or self._budget_s is None:
            return False
        return self._ends_s - time.monotonic() - compiling_s < LEAST_SHARE * self._budget_s

    def to_measure_s(self) -> float | None:
        """The time that is left for measuring, at least the least share of the budget in all; None for no limit."""
        if self._budget_s is None:
            return None
        left_s = self._budget_s - self.measured_s
        if self._ends_s is None:
            return left_s
        return min(left_s, max(LEAST_SHARE * self._budget_s - self.measured_s, self._ends_s - time.monotonic()))
