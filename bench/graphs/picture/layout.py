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
import dataclasses
import graphlib
from collections.abc import Sequence

Point = tuple[float, float]
BETWEEN = 22
"""Pixels between neighbours on a layer."""
BELOW = 34
"""Pixels between layers."""
SWEEPS = 12
STRAIGHT = 8.0
"""How much stronger a place on a line pulls than a box, so that long lines stay straight."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Box:
    """Width and height in pixels."""

    width: float
    height: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """From one box to another: points it goes through, upright at each; the last one is at the top of a box.

    Attributes:
        arrow: whether it ends at a box, and not at a place from which it goes on to several.
    """

    points: tuple[Point, ...]
    arrow: bool


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
    """Places are the boxes, by their index, and behind them those of values on their way."""

    def __init__(self, boxes: Sequence[Box], values: Sequence[tuple[int, Sequence[int]]]) -> None:
        self.boxes = boxes
        self.values = [(maker, sorted(set(readers))) for maker, readers in values if readers]
        self.layer = self._layers()
        self.widths = [box.width for box in boxes]
        self.above: list[list[int]] = [[] for _ in boxes]
        self.below: list[list[int]] = [[] for _ in boxes]
        self.ways = [self._way(maker, readers) for maker, readers in self.values]
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]

    def _layers(self) -> list[int]:
        """Each box one layer below the lowest of what it reads, and from there as far down as lines get no longer.

        So what reads nothing, and what is made of that alone, comes just above where it is read.
        """
        num = len(self.boxes)
        makers: list[set[int]] = [set() for _ in range(num)]
        readers: list[set[int]] = [set() for _ in range(num)]
        for maker, readers_of in self.values:
            readers[maker] |= set(readers_of)
            for reader in readers_of:
                makers[reader].add(maker)
        order = list(graphlib.TopologicalSorter(dict(enumerate(makers))).static_order())
        layer = [0] * num
        for index in order:
            layer[index] = max((layer[maker] + 1 for maker in makers[index]), default=0)
        follows = [False] * num  # it and all above it can be moved with its only reader
        for index in order:
            follows[index] = len(readers[index]) == 1 and all(follows[maker] for maker in makers[index])
        for index in reversed(order):
            held = sum(not follows[maker] for maker in makers[index])
            if readers[index] and len(readers[index]) >= held:
                layer[index] = min(layer[reader] for reader in readers[index]) - 1
        return layer

    def _way(self, maker: int, readers: Sequence[int]) -> list[int]:
        """Places of a value on the layers between its maker and its last reader; ties all of them together."""
        way: list[int] = []
        last = max(self.layer[reader] for reader in readers)
        for layer in range(self.layer[maker] + 1, last):
            way.append(len(self.layer))
            self.layer.append(layer)
            self.widths.append(0.0)
            self.above.append([])
            self.below.append([])
        chain = [maker, *way]
        for one, other in zip(chain, way, strict=False):
            self._tie(one, other)
        for reader in readers:
            self._tie(chain[self.layer[reader] - self.layer[maker] - 1], reader)
        return way

    def _tie(self, upper: int, lower: int) -> None:
        self.below[upper].append(lower)
        self.above[lower].append(upper)

    def layout(self) -> Layout:
        self._order()
        x = self._sideways()
        heights = [
            max((self.boxes[index].height for index in row if index < len(self.boxes)), default=0) for row in self.rows
        ]
        tops = [0.0]
        for height in heights:
            tops.append(tops[-1] + height + BELOW)
        left = min((x[index] - self.widths[index] / 2 for index in range(len(x))), default=0)
        x = [value - left for value in x]
        corners = []
        for index, box in enumerate(self.boxes):
            layer = self.layer[index]
            corners.append((x[index] - box.width / 2, tops[layer] + (heights[layer] - box.height) / 2))
        return Layout(
            corners=tuple(corners),
            lines=tuple(self._lines(x, tops, heights, corners)),
            width=max((x[index] + self.widths[index] / 2 for index in range(len(x))), default=0),
            height=max(tops[-1] - BELOW, 0),
        )

    def _lines(
        self, x: Sequence[float], tops: Sequence[float], heights: Sequence[float], corners: Sequence[Point]
    ) -> list[Line]:
        """For each value, the way that its readers share, and from it a branch to each of them."""
        lines = []
        for (maker, readers), way in zip(self.values, self.ways, strict=True):
            start = (x[maker], corners[maker][1] + self.boxes[maker].height)
            shared = [start, (x[maker], tops[self.layer[maker]] + heights[self.layer[maker]])]
            for place in way:
                layer = self.layer[place]
                shared += [(x[place], tops[layer]), (x[place], tops[layer] + heights[layer])]
            if way:
                lines.append(Line(points=tuple(shared), arrow=False))
            for reader in readers:
                steps = self.layer[reader] - self.layer[maker] - 1
                branch = shared[1 + 2 * steps : 2 + 2 * steps] if steps else shared[:2]
                end = [(x[reader], tops[self.layer[reader]]), (x[reader], corners[reader][1])]
                lines.append(Line(points=(*branch, *end), arrow=True))
        return lines

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
        for sweep in range(SWEEPS):
            if not fewest:
                break
            downwards = sweep % 2 == 0
            ties = self.above if downwards else self.below
            at = {index: position for row in self.rows for position, index in enumerate(row)}
            for row in self.rows if downwards else reversed(self.rows):
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
        for upper, lower in zip(self.rows, self.rows[1:], strict=False):
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
        for sweep in range(2 * SWEEPS):
            downwards = sweep % 2 == 0
            for row in self.rows if downwards else reversed(self.rows):
                self._fit(row, x, self.above if downwards else self.below)
        return x

    def _fit(self, row: Sequence[int], x: list[float], ties: Sequence[Sequence[int]]) -> None:
        """Move the places of a layer towards what they are tied to."""
        num_boxes = len(self.boxes)
        pools: list[tuple[float, float, int]] = []  # mean wish, weight, number of places
        shifts = []  # how far right each place is for those to its left
        shift = 0.0
        for position, index in enumerate(row):
            if position:
                shift += (self.widths[row[position - 1]] + self.widths[index]) / 2 + BETWEEN
            shifts.append(shift)
            wishes = [(x[other], STRAIGHT if max(index, other) >= num_boxes else 1.0) for other in ties[index]]
            weight = sum(pull for _, pull in wishes) or 0.01
            wish = sum(place * pull for place, pull in wishes) / weight if wishes else x[index]
            pools.append((wish - shift, weight, 1))
            while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
                (one, one_weight, one_num), (other_, other_weight, other_num) = pools[-2:]
                both = one_weight + other_weight
                pools[-2:] = [((one * one_weight + other_ * other_weight) / both, both, one_num + other_num)]
        position = 0
        for mean, _, number in pools:
            for _ in range(number):
                x[row[position]] = mean + shifts[position]
                position += 1
