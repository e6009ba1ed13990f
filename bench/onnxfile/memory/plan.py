"""The place of each activation in one block of memory, such that activations alive at the same time never overlap.

The order of the nodes is given, so each buffer has a fixed first and last step, and only its offset is free. This is
dynamic storage allocation, which is NP-hard, but in models large buffers live briefly. Buffers are placed one by
one, each at the lowest free offset; the order in which that is done is what matters. Several orders are tried, then the
best one is improved by moving a buffer that reaches the top before others, until the plan is as low as it can be or
the effort is spent. Effort is counted in comparisons, not in seconds: the same buffers have the same plan everywhere.
Where more pairs of buffers are alive together than can be compared, one pass over time places them instead.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import heapq
import itertools
import random
from collections.abc import Iterable, Sequence

from bench.onnxfile.deferred import np
from bench.onnxfile.memory.best_fit import best_fit

ALIGNMENT_BYTES = 64  # a cache line, and the widest vector register
_EFFORT = 4_000_000
"""Comparisons of two buffers after which the search ends with the best plan so far: a few seconds."""
_MOST_PAIRS = 1_000_000
"""Pairs of buffers alive together, up to which orders are searched: 1,400 buffers that all meet."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Buffer:
    """Memory that is in use from `first_step` to `last_step`, both included."""

    name: str
    size_bytes: int
    first_step: int
    last_step: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """Offsets in one arena.

    Attributes:
        buffers: that were placed.
        offsets_bytes: where each buffer begins, in the same order.
        arena_bytes: size of the arena.
        lower_bound_bytes: the largest sum of sizes that are alive at one step; no plan for this order of nodes is
            smaller.
        native_bytes: the sum of all sizes, the need without any reuse.
    """

    buffers: tuple[Buffer, ...]
    offsets_bytes: tuple[int, ...]
    arena_bytes: int
    lower_bound_bytes: int
    native_bytes: int


def plan_memory(buffers: Iterable[Buffer], *, effort: int = _EFFORT) -> MemoryPlan:
    """Find offsets for buffers, each a multiple of `ALIGNMENT_BYTES`.

    Args:
        effort: comparisons of two buffers to spend on a better plan; the first few orders are tried in any case.

    Raises:
        ValueError: a size is negative, or a buffer ends before it begins.
    """
    buffers = tuple(buffers)
    for buffer in buffers:
        if buffer.size_bytes < 0 or buffer.last_step < buffer.first_step:
            raise ValueError(f"no such buffer: {buffer}")
    placed = iter(_placed([buffer for buffer in buffers if buffer.size_bytes], effort))
    offsets = tuple(next(placed) if buffer.size_bytes else 0 for buffer in buffers)
    plan = MemoryPlan(
        buffers=buffers,
        offsets_bytes=offsets,
        arena_bytes=max(
            (buffer.size_bytes + offset for buffer, offset in zip(buffers, offsets, strict=True)), default=0
        ),
        lower_bound_bytes=lower_bound_bytes(buffers),
        native_bytes=sum(buffer.size_bytes for buffer in buffers),
    )
    check_plan(plan)
    return plan


def _placed(buffers: Sequence[Buffer], effort: int) -> list[int]:
    """The offset of each buffer."""
    ends = sorted(buffer.last_step for buffer in buffers)
    begins = sorted(buffer.first_step for buffer in buffers)
    if sum(begun - bisect.bisect_left(ends, first) for begun, first in enumerate(begins)) <= _MOST_PAIRS:
        return _Search(buffers).run(effort)
    return best_fit(list(map(_aligned, buffers)), [(buffer.first_step, buffer.last_step) for buffer in buffers])


def _aligned(buffer: Buffer) -> int:
    """The size of a buffer with the bytes up to the next one."""
    return -(-buffer.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def lower_bound_bytes(buffers: Iterable[Buffer]) -> int:
    """The largest sum of sizes alive at one step."""
    changes: collections.Counter[int] = collections.Counter()
    for buffer in buffers:
        changes[buffer.first_step] += buffer.size_bytes
        changes[buffer.last_step + 1] -= buffer.size_bytes
    return max(itertools.accumulate(changes[step] for step in sorted(changes)), default=0)


def check_plan(plan: MemoryPlan) -> None:
    """Assert that buffers which are alive at the same time do not overlap, and that all lie in the arena.

    The check shares no code with the search: it keeps the live buffers sorted by offset, and compares each buffer that
    begins with its two neighbours.
    """
    placed = [pair for pair in zip(plan.buffers, plan.offsets_bytes, strict=True) if pair[0].size_bytes]
    for buffer, offset in placed:
        assert offset >= 0, f"{buffer.name} has no offset"
        assert offset + buffer.size_bytes <= plan.arena_bytes, f"{buffer.name} lies outside the arena"
        assert offset % ALIGNMENT_BYTES == 0, f"{buffer.name} is not aligned"
    placed.sort(key=lambda pair: pair[0].first_step)
    alive: list[tuple[int, int]] = []  # offset and position in `placed`, sorted
    ends: list[tuple[int, int, int]] = []  # last step, offset and position; the first to end comes first
    for position, (buffer, offset) in enumerate(placed):
        while ends and ends[0][0] < buffer.first_step:
            alive.pop(bisect.bisect_left(alive, heapq.heappop(ends)[1:]))
        at = bisect.bisect_left(alive, (offset, position))
        alive.insert(at, (offset, position))
        heapq.heappush(ends, (buffer.last_step, offset, position))
        for (low, index), (high, other) in itertools.pairwise(alive[max(at - 1, 0) : at + 2]):
            names = f"{placed[index][0].name} and {placed[other][0].name}"
            assert low + placed[index][0].size_bytes <= high, f"{names} overlap at step {buffer.first_step}"


class _Search:
    """Searches for an order of placing the buffers that gives a low arena."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.sizes = list(map(_aligned, buffers))
        self.bound = lower_bound_bytes(
            dataclasses.replace(buffer, size_bytes=size) for buffer, size in zip(buffers, self.sizes, strict=True)
        )
        self.spans = [(buffer.first_step, buffer.last_step) for buffer in buffers]
        self.meets: list[list[int]] = [[] for _ in buffers]
        alive: list[int] = []
        for index in sorted(range(len(buffers)), key=lambda index: self.spans[index]):
            alive = [other for other in alive if self.spans[other][1] >= self.spans[index][0]]
            for other in alive:
                self.meets[index].append(other)
                self.meets[other].append(index)
            alive.append(index)
        self.spent = 0

    def run(self, effort: int) -> list[int]:
        """The offsets of the best plan found."""
        plans = [(order, self._place(order)) for order in self._first_orders()]
        order, offsets = min(plans, key=lambda plan: self._height(plan[1]))
        height = self._height(offsets)
        generator = random.Random(0)
        while height > self.bound and self.spent < effort:
            tried = self._moved(order, offsets, height, generator)
            placed = self._place(tried)
            if (reached := self._height(placed)) <= height:  # many moves change nothing
                order, offsets, height = tried, placed, reached
        return offsets

    def _first_orders(self) -> list[list[int]]:
        """Orders by size, by size times life, by life and by bytes in use meanwhile, all descending; and by time."""
        sizes = np.array(self.sizes, float)  # products of whole numbers could overflow
        first, last = np.reshape(self.spans, (-1, 2)).T
        lives = last - first + 1
        loads = sizes + [sum(self.sizes[other] for other in met) for met in self.meets]
        keys = [(-sizes, first), (-sizes * lives, first), (-lives, -sizes), (-loads, -sizes), (first, -sizes)]
        return [np.lexsort((then, key)).tolist() for key, then in keys]

    def _place(self, order: Sequence[int]) -> list[int]:
        """Give each buffer in turn the lowest offset at which it fits among those it meets."""
        offsets = [-1] * len(order)
        for index in order:
            size = self.sizes[index]
            spans = sorted((offsets[other], self.sizes[other]) for other in self.meets[index] if offsets[other] >= 0)
            self.spent += len(self.meets[index]) + 1
            low = 0
            for start, length in spans:
                if start - low >= size:
                    break
                low = max(low, start + length)
            offsets[index] = low
        return offsets

    def _height(self, offsets: Sequence[int]) -> int:
        return max((offset + size for offset, size in zip(offsets, self.sizes, strict=True)), default=0)

    def _moved(self, order: list[int], offsets: list[int], height: int, generator: random.Random) -> list[int]:
        """The order with a buffer that reaches the top placed before one that it meets."""
        place = {index: at for at, index in enumerate(order)}
        tops = [index for index in order if offsets[index] + self.sizes[index] == height]
        top = generator.choice(tops)
        earlier = [place[other] for other in self.meets[top] if place[other] < place[top]]
        moved = [index for index in order if index != top]
        moved.insert(generator.choice(earlier) if earlier else 0, top)
        return moved
