"""In words how noisy the machine was, what that cost, and how far intervals rest on launches: with a table's notes."""

from __future__ import annotations

from collections.abc import Iterable

from bench.measure import noise
from bench.measure.launch import Launch
from bench.records.measurements import Measurements
from bench.records.rows import Row

_QUIET = 1.4
"""Times as wide as on an idle machine up to which intervals are said to be of a quiet machine."""
_FEWEST_BLOCKS = 6
"""Blocks that tell a quiet machine from one that is twice as noisy: of fewer, the prior of the model decides."""
_LEAST_LOST = 0.005
"""Smallest share of the time, lost to others, that is told."""
_MOSTLY = 0.5
"""Share of what is known of a variance above which an interval rests on the prior rather than on launches."""
MANY = 0.25
"""Share of the intervals that rest on the prior above which that is told."""


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
    launches = {name: measurements.records[name].launches for name in names}
    every = [launch for own in launches.values() for launch in own]
    said = (_noisy(wider, every), _lost(every), _believed(measurements, launches), _unsettled(measurements, launches))
    return " ".join(filter(None, said))


def _noisy(wider: float, launches: Iterable[Launch]) -> str:
    if len({launch.block for launch in launches}) < _FEWEST_BLOCKS:
        return (
            "So few launches do not tell how noisy the machine was: intervals are "
            f"{wider:.1f} times as wide as on one that is known to be idle."
        )
    if wider > _QUIET:
        return f"The machine was noisy: intervals are {wider:.1f} times as wide as on an idle machine."
    return "Intervals are about as wide as on an idle machine."


def _lost(launches: list[Launch]) -> str:
    lost = noise.lost_share(launches)
    if lost is None or lost < _LEAST_LOST:
        return ""
    return f"Other programs and other virtual machines took {100 * lost:.2g} % of the time of its launches."


def _unsettled(measurements: Measurements, names: Iterable[str]) -> str:
    """That the estimates of the noise did not come to rest, where they did not."""
    fits = filter(None, map(measurements.of, names))
    if all(fitted.has_converged for fitted in fits):
        return ""
    return "The estimate of the noise did not converge: intervals may be too narrow or too wide."


def _believed(measurements: Measurements, names: Iterable[str]) -> str:
    """Of how many cells the interval of the ratio rests on what was believed of the machine before any launch."""
    shares: dict[str, float] = {}
    counts: dict[str, int] = {}
    for name in names:
        fitted = measurements.of(name)
        if fitted is not None and (share := fitted.believed_share(name)) is not None:
            shares[name], counts[name] = share, fitted.num_launches[name]
    resting = [name for name, share in shares.items() if share > _MOSTLY]
    if len(resting) <= MANY * len(shares):
        return ""
    cells = "the cells were" if len(shares) > 1 else "the cell was"
    why = f"{cells} launched once" if {counts[name] for name in resting} == {1} else "launches are few"
    number = f"{len(resting)} of {len(shares)} intervals rest" if len(shares) > 1 else "The interval rests"
    return f"{number} mostly on what such machines have shown before, because {why}."
