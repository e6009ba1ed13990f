"""A stored launch."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Mapping
from typing import Any


class Launch(dict[str, Any]):
    """A launch's line as it is stored, whole and not to be changed."""

    @functools.cached_property
    def medians(self) -> tuple[float, ...]:
        """Those of `burst_medians`, once: cells are compared with many others."""
        return _medians(self)


def burst_medians(launch: Mapping[str, Any]) -> tuple[float, ...]:
    """The median of each pass's steady samples, in nanoseconds."""
    return launch.medians if isinstance(launch, Launch) else _medians(launch)


def _medians(launch: Mapping[str, Any]) -> tuple[float, ...]:
    # For a few samples at a time, far faster than numpy's, and the same.
    return tuple(float(statistics.median(samples)) for samples in launch["steady_ns"])
