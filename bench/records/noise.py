"""In words how noisy the machine was, and what that cost: a sentence with the notes of a table."""

from __future__ import annotations

from collections.abc import Iterable

from bench.measure import noise
from bench.records.measurements import Measurements
from bench.records.rows import Row

QUIET = 1.4
"""Times as wide as on an idle machine up to which intervals are said to be of a quiet machine."""
FEWEST_BLOCKS = 4
"""Blocks that tell a quiet machine from one that is twice as noisy: of fewer, the belief of the model decides."""
LEAST_LOST = 0.005
"""Smallest share of the time, lost to others, that is told."""


def said(measurements: Measurements, rows: Iterable[Row]) -> str:
    """`The machine was noisy: intervals are 2.3 times as wide as on an idle machine.`; empty without comparisons.

    Args:
        measurements: the model of the measurement, fitted to the records that the rows were made of.
        rows: the rows of a table.
    """
    names = [row.cell for row in rows if row.num_launches]
    wider = noise.typical(measurements.widening, names)
    if wider is None:
        return ""
    launches = [launch for name in names for launch in measurements.records[name].launches]
    if len({launch.block for launch in launches}) < FEWEST_BLOCKS:
        parts = [
            "So few launches do not tell how noisy the machine was: intervals are "
            f"{wider:.1f} times as wide as on one that is known to be idle."
        ]
    elif wider > QUIET:
        parts = [f"The machine was noisy: intervals are {wider:.1f} times as wide as on an idle machine."]
    else:
        parts = ["The machine was quiet: intervals are about as wide as on an idle machine."]
    lost = noise.lost_share(launches)
    if lost is not None and lost >= LEAST_LOST:
        parts.append(f"Other programs and other virtual machines took {100 * lost:.2g} % of the time of its launches.")
    return " ".join(parts)
