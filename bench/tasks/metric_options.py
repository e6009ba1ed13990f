"""The metric and the output that `--metric` and `--output` name for the targets of a data set."""

from __future__ import annotations

import dataclasses
import re

from bench.api.errors import InputError

ACCURACY, RMSE = "accuracy", "rmse"
_METRICS = "accuracy (the largest score, or a score above its threshold), accuracy@0.5 (a score above 0.5) and rmse"
_NAMED = re.compile(r"(accuracy)(?:@([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?))?|rmse", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    """The metric and the output that the user named.

    Attributes:
        metric: `accuracy` or `rmse`; None for the metric that fits the type of the targets.
        threshold: the score above which an output with a single score says class 1; None for the usual threshold.
        output: name of the output to judge; None for the output that fits.
    """

    metric: str | None = None
    threshold: float | None = None
    output: str | None = None

    @staticmethod
    def of(metric: str | None, output: str | None) -> Wanted:
        """Read the values of the options `--metric` and `--output`.

        Raises:
            InputError: there is no such metric.
        """
        if metric is None:
            return Wanted(output=output)
        match = _NAMED.fullmatch(metric)
        if match is None:
            raise InputError(f"no metric {metric!r}; --metric takes {_METRICS}; for all else give a Python file")
        threshold = float(match[2]) if match[2] else None
        return Wanted(metric=metric.partition("@")[0].lower(), threshold=threshold, output=output)

    @property
    def is_whole(self) -> bool:
        """Whether both are named, so that nothing about the meaning of the targets is left to guess."""
        return self.metric is not None and self.output is not None


ANY = Wanted()
"""Nothing is named: what fits is taken."""
