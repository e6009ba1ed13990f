"""Roofline: how near a cell comes to the machine's peak rates, and which of these rates limits the cell.

Source: Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model for Multicore
Architectures" (2009); in MACs rather than FLOPs (one MAC is two).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

COPY = "copy"
"""Stands for the rate of copies beside the names of precisions."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Peaks:
    """The highest rates that were ever measured on a machine with a certain number of threads.

    Attributes:
        macs_per_s: by precision, MACs in a second of a product of two large matrices.
        libraries: by precision, name of the library that computed this product.
        bytes_per_s: bytes that a copy within the memory reads and writes in a second.
        undisturbed: precisions, and `COPY`, that were measured several times while nothing disturbed the machine; the
            other rates may be too low.
    """

    macs_per_s: Mapping[str, float]
    libraries: Mapping[str, str]
    bytes_per_s: float
    undisturbed: tuple[str, ...] = ()

    def or_higher(self, other: Peaks) -> Peaks:
        """The higher rate in each precision: a disturbance lowers a rate, so the highest is nearest to the truth."""
        macs, libraries = dict(self.macs_per_s), dict(self.libraries)
        for precision, rate in other.macs_per_s.items():
            if rate > macs.get(precision, 0.0):
                macs[precision], libraries[precision] = rate, other.libraries[precision]
        return Peaks(
            macs_per_s=macs,
            libraries=libraries,
            bytes_per_s=max(self.bytes_per_s, other.bytes_per_s),
            undisturbed=tuple(sorted({*self.undisturbed, *other.undisturbed})),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Where a cell lies under the roof.

    Attributes:
        macs_per_byte: arithmetic intensity: MACs for each byte that the cell has to move at least.
        gmacs_per_s: achieved rate, in 1e9 MACs in a second.
        peak_share: achieved rate over the peak in the cell's precision.
        roof_share: achieved rate over the highest possible rate: the peak, or less where the memory is the limit.
        bound: `compute` or `memory`: which of the two alone would take longer.
    """

    macs_per_byte: float
    gmacs_per_s: float
    peak_share: float | None = None
    roof_share: float | None = None
    bound: str | None = None


def place(*, macs: int, num_bytes: int, seconds: float, precision: str | None, peaks: Peaks | None) -> Place:
    """Find where a cell lies under the roof.

    Args:
        macs: MACs of one inference.
        num_bytes: bytes that one inference has to move at least: weights, inputs and outputs, each once.
        seconds: duration of one inference.
        precision: precision of the products.
        peaks: peaks of the machine with as many threads; None where they were not measured.
    """
    achieved = macs / seconds
    point = Place(macs_per_byte=macs / num_bytes, gmacs_per_s=achieved / 1e9)
    peak = peaks.macs_per_s.get(precision or "") if peaks else None
    if peaks is None or peak is None:
        return point
    compute_s, memory_s = macs / peak, num_bytes / peaks.bytes_per_s
    bound = "compute" if compute_s >= memory_s else "memory"
    roof_share = max(compute_s, memory_s) / seconds
    return dataclasses.replace(point, peak_share=achieved / peak, roof_share=roof_share, bound=bound)
