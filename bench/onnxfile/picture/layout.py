"""The places of the boxes of a directed graph, such that it reads from top to bottom.

After Sugiyama: boxes are put on layers below all that they read; a value that is read several layers below gets a place
on each layer between; on each layer places are ordered by those they are tied to, to have few crossings; then they move
sideways, as near as they can be to the middle of those they are tied to without changing the order or touching. That
last step is a least-squares fit of an increasing sequence, which pooling adjacent violators solves exactly.

Source: Sugiyama, Tagawa, Toda, Methods for Visual Understanding of Hierarchical System Structures, 1981; for pooling,
Barlow et al., Statistical Inference under Order Restrictions, 1972.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import graphlib
import itertools
from collections.abc import Iterator, Mapping, Sequence

Point = tuple[float, float]
BETWEEN = 22
"""Pixels between neighbours on a layer."""
_BELOW = 34
"""Pixels between layers."""
_SWEEPS = 12
_PLACES = 8
"""Places of lines for each box, on the average; lines that would need more go straight, the longest first."""
_STRAIGHT = 8.0
"""How much stronger a place on a line pulls than a box, so that long lines stay straight."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Box:
    """Width and height in pixels."""

    width: float
    height: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """A line from one box to another: the points that it goes through, upright at each of them.

    Attributes:
        arrow: whether the line ends at the top of a box; if not, it ends where its last branch leaves it.
        straight: whether the line goes through many layers without a place of its own, and may pass behind boxes.
    """

    points: tuple[Point, ...]
    arrow: bool
    straight: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """Left upper corners of the boxes, lines between them, and the size of the whole picture in pixels."""

    corners: tuple[Point, ...]
    lines: tuple[Line, ...]
    width: float
    height: float


def lay_out(boxes: Sequence[Box], values: Sequence[tuple[int, Sequence[int]]]) -> Layout:
    """Place boxes.

    Args:
        values: the box that makes each value, and those that read it; without a cycle.
    """
    return _Drawing(boxes, values).layout()


class _Drawing:
    """Numbers the places: first the boxes, then the places of values on layers between their maker and a reader."""

    def __init__(self, boxes: Sequence[Box], values: Sequence[tuple[int, Sequence[int]]]) -> None:
        self.boxes = boxes
        self.values = [(maker, sorted(set(readers))) for maker, readers in values if readers]
        self.layer = self._layers()
        self.widths = [box.width for box in boxes]
        self.above: dict[int, list[int]] = collections.defaultdict(list)
        self.below: dict[int, list[int]] = collections.defaultdict(list)
        longest = self._longest_way()
        self.ways = [self._way(maker, readers, longest) for maker, readers in self.values]
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]

    def _layers(self) -> list[int]:
        """Put each box one layer below the lowest box that it reads, then as far down as lines get no longer.

        So a box that reads nothing comes just above its reader, and so does a box that reads only such boxes.
        """
        makers: dict[int, set[int]] = {index: set() for index in range(len(self.boxes))}
        readers: dict[int, set[int]] = {index: set() for index in range(len(self.boxes))}
        for maker, readers_of in self.values:
            readers[maker] |= set(readers_of)
            for reader in readers_of:
                makers[reader].add(maker)
        order = list(graphlib.TopologicalSorter(makers).static_order())
        layer = [0] * len(order)
        follows = [False] * len(order)  # it and all above it can be moved with its only reader
        for index in order:
            layer[index] = max((layer[maker] + 1 for maker in makers[index]), default=0)
            follows[index] = len(readers[index]) == 1 and all(follows[maker] for maker in makers[index])
        for index in reversed(order):
            num_fixed = sum(not follows[maker] for maker in makers[index])
            if readers[index] and len(readers[index]) >= num_fixed:
                layer[index] = min(layer[reader] for reader in readers[index]) - 1
        return layer

    def _longest_way(self) -> int:
        """The number of layers up to which a line has a place on each, so that all lines together have not too many.

        In a chain whose values are all read at its end, the places would be quadratic in the number of boxes.
        """
        spans = sorted(
            self.layer[reader] - self.layer[maker] - 1 for maker, readers in self.values for reader in readers
        )
        places = itertools.accumulate(spans)
        within = bisect.bisect_right(list(places), _PLACES * (len(self.boxes) + 1000))
        return spans[-1] if within == len(spans) and spans else spans[within] - 1 if spans else 0

    def _way(self, maker: int, readers: Sequence[int], longest: int) -> list[int]:
        """Places of a value on the layers between its maker and its last reader; ties all of them together.

        Readers that are more than `longest` layers away are left out.
        """
        first = self.layer[maker] + 1
        readers = [reader for reader in readers if self.layer[reader] - first <= longest]
        layers = range(first, max((self.layer[reader] for reader in readers), default=first))
        way = [len(self.layer) + position for position in range(len(layers))]
        self.layer += layers
        self.widths += [0.0] * len(way)
        chain = [maker, *way]
        branches = [(chain[self.layer[reader] - first], reader) for reader in readers]
        for upper, lower in (*itertools.pairwise(chain), *branches):
            self.below[upper].append(lower)
            self.above[lower].append(upper)
        return way

    def layout(self) -> Layout:
        self._order()
        x = self._sideways()
        heights = [
            max((self.boxes[index].height for index in row if index < len(self.boxes)), default=0) for row in self.rows
        ]
        tops = [0.0]
        for height in heights:
            tops.append(tops[-1] + height + _BELOW)
        left = min((middle - width / 2 for middle, width in zip(x, self.widths, strict=True)), default=0)
        x = [middle - left for middle in x]
        corners = [
            (middle - box.width / 2, tops[layer] + (heights[layer] - box.height) / 2)
            for box, middle, layer in zip(self.boxes, x, self.layer, strict=False)
        ]
        return Layout(
            corners=tuple(corners),
            lines=tuple(self._lines(x, tops, heights, corners)),
            width=max((middle + width / 2 for middle, width in zip(x, self.widths, strict=True)), default=0),
            height=max(tops[-1] - _BELOW, 0),
        )

    def _lines(
        self, x: Sequence[float], tops: Sequence[float], heights: Sequence[float], corners: Sequence[Point]
    ) -> Iterator[Line]:
        """For each value, the way that its readers share, and from it a branch to each of them."""
        for (maker, readers), way in zip(self.values, self.ways, strict=True):
            first = self.layer[maker]
            shared = [
                (x[maker], corners[maker][1] + self.boxes[maker].height),
                (x[maker], tops[first] + heights[first]),
            ]
            for layer, place in enumerate(way, first + 1):
                shared += [(x[place], tops[layer]), (x[place], tops[layer] + heights[layer])]
            if way:
                yield Line(points=tuple(shared), arrow=False)
            for reader in readers:
                steps = self.layer[reader] - first - 1
                straight = steps > len(way)
                branch = shared[1 + 2 * steps : 2 + 2 * steps] if steps and not straight else shared[:2]
                end = [(x[reader], tops[self.layer[reader]]), (x[reader], corners[reader][1])]
                yield Line(points=(*branch, *end), arrow=True, straight=straight)

    def _sweeps(self, number: int) -> Iterator[tuple[list[list[int]], Mapping[int, Sequence[int]]]]:
        """Go down and up in turn: the layers in order, and what each place is tied to on the layer before its own."""
        for sweep in range(number):
            yield (self.rows, self.above) if sweep % 2 == 0 else (self.rows[::-1], self.below)

    def _order(self) -> None:
        """Order the places on each layer, by the mean place of those they are tied to, back and forth."""
        seen: set[int] = set()
        for root in range(len(self.boxes)):  # depth first, so that what belongs together starts together
            pending = [root] if not self.above[root] else []
            while pending:
                index = pending.pop()
                if index not in seen:
                    seen.add(index)
                    self.rows[self.layer[index]].append(index)
                    pending += reversed(self.below[index])
        best, fewest = [row[:] for row in self.rows], self._crossings()
        for rows, ties in self._sweeps(_SWEEPS):
            if not fewest:
                break
            at = {index: position for row in self.rows for position, index in enumerate(row)}
            for row in rows:
                means = {
                    index: sum(at[other] for other in ties[index]) / len(ties[index]) if ties[index] else at[index]
                    for index in row
                }
                row.sort(key=means.__getitem__)
                at.update((index, position) for position, index in enumerate(row))
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [row[:] for row in self.rows], crossings
        self.rows = best

    def _crossings(self) -> int:
        """Pairs of lines that cross between two layers."""
        total = 0
        for upper, lower in itertools.pairwise(self.rows):
            at = {index: position for position, index in enumerate(lower)}
            ends: list[int] = []
            for index in upper:
                targets = sorted(at[other] for other in self.below[index])
                total += sum(len(ends) - bisect.bisect_right(ends, target) for target in targets)
                for target in targets:
                    bisect.insort(ends, target)
        return total

    def _sideways(self) -> list[float]:
        """The middle of each place."""
        x = [0.0] * len(self.layer)
        for row in self.rows:
            right = 0.0
            for index in row:
                x[index] = right + self.widths[index] / 2
                right += self.widths[index] + BETWEEN
        settled = 0
        for rows, ties in self._sweeps(2 * _SWEEPS):
            before = x[:]
            for row in rows:
                self._fit(row, x, ties)
            settled = settled + 1 if x == before else 0
            if settled == 2:  # neither the way down nor the way up moves a box
                break
        return x

    def _fit(self, row: Sequence[int], x: list[float], ties: Mapping[int, Sequence[int]]) -> None:
        """Move the places of a layer towards the places that they are tied to."""
        gaps = [(self.widths[left] + self.widths[right]) / 2 + BETWEEN for left, right in itertools.pairwise(row)]
        shifts = list(itertools.accumulate(gaps, initial=0.0))  # least distance of each place from the first
        pools: list[tuple[float, float, int]] = []  # mean wish, weight, number of places
        for index, shift in zip(row, shifts, strict=True):
            pulls = [_STRAIGHT if max(index, other) >= len(self.boxes) else 1.0 for other in ties[index]]
            weight, number = sum(pulls) or 0.01, 1
            pulled = sum(x[other] * pull for other, pull in zip(ties[index], pulls, strict=True))
            mean = (pulled / weight if pulls else x[index]) - shift
            while pools and pools[-1][0] > mean:
                left, left_weight, left_number = pools.pop()
                mean = (left * left_weight + mean * weight) / (left_weight + weight)
                weight, number = left_weight + weight, left_number + number
            pools.append((mean, weight, number))
        means = itertools.chain.from_iterable([mean] * number for mean, _, number in pools)
        for index, mean, shift in zip(row, means, shifts, strict=True):
            x[index] = mean + shift
