"""The least time of a decode step: what it must read, at the rate at which the machine reads as large a buffer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from bench.records.lines import Generation
from bench.records.measured_cell import Measured

_ALIKE = 1.25
"""Buffers whose sizes differ by a smaller factor are read as fast as one another."""
_BEYOND = 0.1
"""A pass that is so much faster than the machine reads, as a share, is no error of the measured rate any more."""


class ReadRates:
    """How fast the machine reads buffers, as the verifications of generating cells measured it.

    A disturbance only lowers a rate, so the highest counts among buffers of about the same size.
    """

    def __init__(self, records: Iterable[Measured]) -> None:
        self._of: dict[int, list[tuple[int, float]]] = {}
        for record in records:
            generation = generation_of(record)
            if generation is not None and generation.pass_bytes and generation.read_bytes_per_s:
                self._of.setdefault(record.cell.threads, []).append(
                    (generation.pass_bytes, generation.read_bytes_per_s)
                )

    def highest(self, num_bytes: int, threads: int) -> float | None:
        """The highest rate of buffers of about so many bytes; None where none was measured."""
        near = [rate for size, rate in self._of.get(threads, ()) if 1 / _ALIKE <= size / num_bytes <= _ALIKE]
        return max(near, default=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadBound:
    """The least time in which a machine reads what a pass of a decoder must read.

    Attributes:
        num_bytes: bytes of weights and cache.
        bytes_per_s: how fast the machine reads a buffer of as many bytes.
    """

    num_bytes: int
    bytes_per_s: float

    @property
    def seconds(self) -> float:
        return self.num_bytes / self.bytes_per_s

    def refusal(self, latency_high_ns: float) -> str | None:
        """Why a pass cannot have taken no longer than so many nanoseconds; None where it can."""
        seconds = latency_high_ns / 1e9
        if seconds * (1 + _BEYOND) >= self.seconds:
            return None
        return (
            f"it cannot have run: at most {seconds * 1e3:.4g} ms a pass, but to read its {self.num_bytes / 1e6:.4g} MB "
            f"of weights and cache takes this machine {self.seconds * 1e3:.4g} ms, at {self.bytes_per_s / 1e9:.4g} GB/s"
        )


def generation_of(record: Measured) -> Generation | None:
    """What is known of the cache of an engine that generates text; None for other cells."""
    generation = record.quality.generation if record.quality is not None else None
    return generation if isinstance(generation, Generation) else None


def read_bound(record: Measured, rates: ReadRates) -> ReadBound | None:
    """The bound of a cell that generates; None for other cells, and where nothing was measured."""
    generation = generation_of(record)
    if generation is None or not generation.pass_bytes or not record.cell.provider.is_on_cpu:
        return None
    rate = rates.highest(generation.pass_bytes, record.cell.threads)
    return None if rate is None else ReadBound(num_bytes=generation.pass_bytes, bytes_per_s=rate)
