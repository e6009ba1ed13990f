"""The Pareto front: the points that no other point beats in both cost and quality."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from bench.records.ranking import is_baseline, is_ranked
from bench.records.rows import Row

T = TypeVar("T")


def pareto_front(points: Sequence[tuple[float | None, float | None]], *, higher_is_better: bool = True) -> list[int]:
    """Indices of the points on the front, cheapest first.

    A point is off the front when another point is at least as good in both figures and better in one. Equal points stay
    together on the front. A point with a figure that is None or not a number is never on the front.

    Args:
        points: pairs of cost and quality; a lower cost is better.
        higher_is_better: whether a higher quality is better.
    """
    sign = -1.0 if higher_is_better else 1.0
    known = sorted(
        (cost, sign * quality, index)
        for index, (cost, quality) in enumerate(points)
        if cost is not None and quality is not None and not math.isnan(cost) and not math.isnan(quality)
    )
    return [known[place][2] for place in undominated([point[:2] for point in known])]


def labels(rows: Iterable[Row], value: Callable[[Row], float | None], *, higher_is_better: bool) -> dict[str, str]:
    """Labels of the rows that stand out in a figure of a value against latency, by cell.

    Figures that agree to four digits count as equal.

    Args:
        rows: rows in any order; a row that is not ranked has no label.
        value: function from a row to the value.
        higher_is_better: whether a higher value is better.

    Returns:
        The number of each row on the Pareto front, from the fastest on, and `B` for a baseline off the front.
    """
    ranked = [row for row in rows if is_ranked(row)]
    values = [value(row) for row in ranked]
    points = [
        (row.latency_p50_ns, None if known is None else float(f"{known:.4g}"))
        for row, known in zip(ranked, values, strict=True)
    ]
    front = pareto_front(points, higher_is_better=higher_is_better)
    baselines = {row.cell: "B" for row in ranked if is_baseline(row)}
    return baselines | {ranked[index].cell: str(number) for number, index in enumerate(front, start=1)}


def front(labels: Mapping[str, str]) -> list[str]:
    """The cells on the Pareto front by their labels, the fastest first."""
    return sorted((cell for cell in labels if labels[cell] != "B"), key=lambda cell: int(labels[cell]))


def undominated(points: Sequence[Sequence[float]]) -> list[int]:
    """Indices of the points that no other point beats, by being worse in no figure and better in one.

    Less is better in every figure.

    Args:
        points: points with the same number of figures; equal points stay together.
    """

    def beats(candidate: Sequence[float], other: Sequence[float]) -> bool:
        pairs = list(zip(candidate, other, strict=True))
        return all(mine <= its for mine, its in pairs) and any(mine < its for mine, its in pairs)

    return [index for index, point in enumerate(points) if not any(beats(other, point) for other in points)]


def uncovered(points: Sequence[T], covers: Callable[[T, T], bool]) -> set[int]:
    """Indices of the points that no other point covers; of points that cover one another, that of the first.

    Args:
        points: the points, the preferred ones first.
        covers: whether the first is worse than the second in nothing, but for noise.
    """
    indices: list[int] = []
    for index, point in enumerate(points):
        if not any(covers(points[position], point) for position in indices):
            indices = [*(position for position in indices if not covers(point, points[position])), index]
    return set(indices)
