"""Figures of single launches: their samples in order, and how their memory grew."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from bench.measure.launch import Launch
from bench.records.assemble import PHASES

MOST_SAMPLES = 100
"""Largest number of samples that are kept of a launch; of more samples, this number of quantiles is kept."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Samples:
    """Steady inferences of one launch.

    Attributes:
        num_samples: number of timed inferences.
        median_ns: median latency; None without samples.
        max_ns: latency of the slowest inference; None without samples.
        kept_ns: at most `MOST_SAMPLES` latencies in ascending order.
    """

    num_samples: int
    median_ns: float | None
    max_ns: float | None
    kept_ns: tuple[float, ...]


def samples(launch: Launch) -> Samples:
    """Summarize the steady inferences of a launch."""
    latencies_ns = np.sort(np.array(launch.samples_ns, float))
    quantiles = (np.arange(MOST_SAMPLES) + 0.5) / MOST_SAMPLES
    summary_ns = np.quantile(latencies_ns, quantiles) if len(latencies_ns) > MOST_SAMPLES else latencies_ns
    return Samples(
        num_samples=len(latencies_ns),
        median_ns=float(np.median(latencies_ns)) if len(latencies_ns) else None,
        max_ns=float(latencies_ns[-1]) if len(latencies_ns) else None,
        kept_ns=tuple(map(float, summary_ns)),
    )


def memory_tops(launches: Sequence[Launch]) -> dict[str, float]:
    """The highest resident set up to the end of each phase, in bytes: the median over launches.

    Of the imports, the size at their end counts rather than their peak, which may have been higher for a moment.
    """
    phases = [launch.memory.phases for launch in launches]
    tops = {"imports": float(np.median([phase["imports"].rss_bytes for phase in phases]))}
    for name in PHASES:
        peak = float(np.median([phase[name].peak_rss_bytes for phase in phases]))
        tops[name] = max(peak, *tops.values())
    return tops
