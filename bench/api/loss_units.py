"""The units in which a loss of the metric is told: a share of the score, or decibels.

A share needs a score with a zero, of which everything can be lost. Decibels have none: 1 % of 30 dB is three times 1 %
of 10 dB, though the pictures get worse by as much. So of a metric in dB a difference is told.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, TypeAlias

Unit: TypeAlias = Literal["share", "dB"]
SHARE: Unit = "share"
DB: Unit = "dB"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AllowedLoss:
    """The most that may be lost of the metric, in the unit of each task.

    Attributes:
        share: of tasks whose loss is a share of the score.
        db: of tasks whose loss is in dB.
    """

    share: float = 0.01
    db: float = 0.1

    def of(self, unit: str | None) -> float:
        """The limit in a unit; where the unit is not known, as of rows without a metric, that of a share."""
        return self.db if unit == DB else self.share

    def __str__(self) -> str:
        return f"{text(self.share, SHARE, digits=4)} or {text(self.db, DB, digits=4)}"

    def option(self, *units: str | None) -> str:
        """The limits in some units as the command line takes them, such as `1%,0.1dB`."""
        return ",".join(f"{self.db:.4g}dB" if unit == DB else f"{100 * self.share:.4g}%" for unit in units)


ANY = AllowedLoss(share=math.inf, db=math.inf)
"""Allows any loss."""


def text(value: float, unit: str | None, *, digits: int = 2) -> str:
    """A loss for people, such as `0.89 %` or `0.046 dB`."""
    return f"{value:.{digits}g} dB" if unit == DB else f"{100 * value:.{digits}g} %"


def least_shown(unit: str | None) -> float:
    """The smallest loss that is shown; a smaller one is rounding."""
    return 5e-4 if unit == DB else 5e-5
