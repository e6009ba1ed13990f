"""Families: the rows of one model at several sizes of a dimension, and the deployments that are fastest there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from bench.api.loss_units import AllowedLoss
from bench.api.names import BATCH, NEW, Role
from bench.decisions import pick, standing
from bench.decisions.constraints import Constraints, qualified
from bench.measure import selection
from bench.measure.stats import Estimate
from bench.records import ranking
from bench.records.measurements import Measurements
from bench.records.ranking import Group, short_name
from bench.records.rows import Row


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stretch:
    """Neighbouring sizes at which one deployment is the fastest, or was not shown to be slower by more.

    Attributes:
        deployment: the deployment, as `ranking.short_name` names it.
        sizes: the sizes, ascending.
        after: latency of the deployment of the stretch before over this one's at the first of these sizes, with an
            interval that holds although both were selected; None for the first stretch, and where the other deployment
            does not run at this size.
    """

    deployment: str
    sizes: tuple[int, ...]
    after: Estimate | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """Requests that differ in the size of a single dimension.

    Attributes:
        task: the task whose sizes were changed.
        dim: the dimension; `batch` for the number of samples.
        others: sizes of the other dimensions that are not the task's own, batch and threads, for a title.
        name: the same as a part of a file's name.
        groups: the rows of each size, by ascending size.
        near: by size, the deployments that keep the metric and were not shown to be slower than the fastest by more
            than `pick.WITHIN`, the fastest first: with 95 % confidence the fastest is one of them, and each other one
            is slower by more. None where no row keeps the metric and was timed.
        stretches: the fewest deployments with which each size has one that is near the fastest.
    """

    task: str
    dim: str
    others: str
    name: str
    groups: Mapping[int, Group]
    near: Mapping[int, Sequence[str]]
    stretches: Sequence[Stretch]


def families(measurements: Measurements, rows: Iterable[Row]) -> list[Family]:
    """The families among rows: every set of requests that differ in one size alone, where there are two sizes or more.

    Args:
        measurements: the model of the measurement, fitted to the records that the rows were made of.
        rows: the rows, in any order.
    """
    by_family: dict[tuple[str, str, tuple[tuple[str, int], ...], int], dict[int, Group]] = {}
    for group in _current(measurements, ranking.select(rows).groups):
        task, sizes = group.task_name, {BATCH: group.batch, **dict(group.task_name.sizes)}
        for dim, size in sizes.items():
            if dim == NEW and task.role is Role.GENERATION:
                continue  # the first token and those after it are no sizes of one request
            others = tuple((other, size) for other, size in sizes.items() if other != dim)
            by_family.setdefault((task.model, dim, others, group.threads), {})[size] = group
    return [
        _family(measurements, task, dim, dict(others), threads, dict(sorted(groups.items())))
        for (task, dim, others, threads), groups in by_family.items()
        if len(groups) > 1
    ]


def _current(measurements: Measurements, groups: Iterable[Group]) -> list[Group]:
    """The groups of the model that was measured last under each name: another model of the name is no other size."""
    headers = [(group, measurements.records[group.rows[0].cell].header) for group in groups]
    newest = {group.task_name.model: header for group, header in sorted(headers, key=lambda pair: pair[1].time)}
    return [group for group, header in headers if header.family == newest[group.task_name.model].family]


def _family(
    measurements: Measurements,
    task: str,
    dim: str,
    others: Mapping[str, int],
    threads: int,
    groups: Mapping[int, Group],
) -> Family:
    races = {size: race for size, group in groups.items() if (race := _race(measurements, group))}
    parts = [f"{other} {size}" for other, size in others.items()] + [f"{threads} thread{'s' if threads > 1 else ''}"]
    stretches = _stretches(races)
    return Family(
        task=task,
        dim=dim,
        others=", ".join(parts),
        name="-".join([f"{task}-by-{dim}", *(f"{other}{size}" for other, size in others.items()), f"threads{threads}"]),
        groups=groups,
        near={size: races[size].near if size in races else () for size in groups},
        stretches=[
            Stretch(deployment=name, sizes=sizes, after=races[sizes[0]].over(before, name))
            for (name, sizes), before in zip(stretches, [None, *(name for name, _ in stretches)], strict=False)
        ],
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Race:
    """The deployments at one size: cells by deployment, the fastest first, and those that are near the fastest."""

    measurements: Measurements
    cells: Mapping[str, str]
    near: Sequence[str]

    def over(self, before: str | None, name: str) -> Estimate | None:
        """The latency of another deployment over that of a selected deployment."""
        fitted = self.measurements.of(self.cells[name])
        if before is None or before not in self.cells or fitted is None:
            return None
        cells = list(self.cells.values())
        ratio = selection.selected_ratio(fitted, self.cells[name], self.cells[before], cells, within=pick.WITHIN)
        return None if ratio is None else Estimate(value=1 / ratio.value, low=1 / ratio.high, high=1 / ratio.low)


def _race(measurements: Measurements, group: Group) -> _Race | None:
    sound = qualified(measurements, group, Constraints(max_metric_loss=AllowedLoss())).rows
    if not sound:
        return None
    names = {row.cell: short_name(row) for row in sound}
    race = standing.selected(measurements, sound, within=pick.WITHIN)
    near = [names[cell] for cell in (race.first, *race.rivals)]
    return _Race(measurements=measurements, cells={name: cell for cell, name in names.items()}, near=near)


def _stretches(races: Mapping[int, _Race]) -> list[tuple[str, tuple[int, ...]]]:
    """The fewest deployments that cover all sizes: from each first size, the deployment that stays near the longest.

    Of deployments that stay as long, the one that is the fastest at the first size is taken.
    """
    sizes, stretches = list(races), []
    while sizes:
        reach = {name: _reach(races, sizes, name) for name in races[sizes[0]].near}
        name = max(reach, key=lambda each: reach[each])
        stretches.append((name, tuple(sizes[: reach[name]])))
        sizes = sizes[reach[name] :]
    return stretches


def _reach(races: Mapping[int, _Race], sizes: Sequence[int], name: str) -> int:
    """The number of sizes, from the first on, at which a deployment is near the fastest."""
    return next((count for count, size in enumerate(sizes) if name not in races[size].near), len(sizes))
