"""Offsets for many buffers in one pass over time: each takes the smallest gap that it fits into when its life begins.

Comparing every pair of buffers that are alive together is quadratic where a graph is wide. One pass takes n log n steps
for n buffers, and gives a plan like that of an allocator, which may leave gaps.

Source: Wilson, Johnstone, Neely, Boles, Dynamic Storage Allocation: A Survey and Critical Review, 1995, section 3.4.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Sequence


class _Gaps:
    """The gaps between the buffers in use, below the height that was ever in use."""

    def __init__(self) -> None:
        self.height = 0
        self.by_size: list[tuple[int, int]] = []  # size and offset, sorted
        self.size_at: dict[int, int] = {}
        self.begin_of: dict[int, int] = {}  # by end

    def take(self, size: int) -> int:
        """The offset of a place of a size, which is a gap from then on no more."""
        at = bisect.bisect_left(self.by_size, (size, 0))
        if at < len(self.by_size):
            whole, offset = self.by_size[at]
            self._drop(offset)
            if whole > size:
                self._add(offset + size, whole - size)
            return offset
        offset = self.begin_of.get(self.height, self.height)  # a gap at the top grows
        if offset < self.height:
            self._drop(offset)
        self.height = offset + size
        return offset

    def give(self, offset: int, size: int) -> None:
        """Make a place a gap, together with the gaps that it touches."""
        if (before := self.begin_of.get(offset)) is not None:
            size += self._drop(before)
            offset = before
        if offset + size in self.size_at:
            size += self._drop(offset + size)
        self._add(offset, size)

    def _add(self, offset: int, size: int) -> None:
        bisect.insort(self.by_size, (size, offset))
        self.size_at[offset] = size
        self.begin_of[offset + size] = offset

    def _drop(self, offset: int) -> int:
        size = self.size_at.pop(offset)
        del self.begin_of[offset + size]
        self.by_size.pop(bisect.bisect_left(self.by_size, (size, offset)))
        return size


def best_fit(sizes: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[int]:
    """The offset of each buffer.

    Args:
        sizes: of the buffers, in bytes; all above 0.
        spans: first and last step of each buffer, both included.
    """
    gaps = _Gaps()
    offsets = [0] * len(sizes)
    alive: list[tuple[int, int]] = []  # last step and index; the first to end comes first
    for index in sorted(range(len(sizes)), key=lambda index: (spans[index][0], -sizes[index])):
        first, last = spans[index]
        while alive and alive[0][0] < first:
            _, ended = heapq.heappop(alive)
            gaps.give(offsets[ended], sizes[ended])
        offsets[index] = gaps.take(sizes[index])
        heapq.heappush(alive, (last, index))
    return offsets
