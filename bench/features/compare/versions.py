"""Comparison of two environments: the same cells with two versions of a package, measured now in the same blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from packaging.utils import canonicalize_name

from bench.api.cell import Cell
from bench.features.compare import side_by_side
from bench.features.compare.changes import PAIRED, Compared, Side, judged
from bench.measure import machine
from bench.measure.block import Method
from bench.measure.goal import Goal
from bench.measure.limits import Limits
from bench.pipeline import environments, versions
from bench.pipeline.environment_request import Asked
from bench.pipeline.sweep_options import Observer
from bench.records import machines


def compare(
    cells: Sequence[Cell],
    requests: Sequence[Asked],
    goal: Goal,
    observer: Observer,
    *,
    limits: Limits,
    may_be_large: bool = False,
) -> Compared:
    """Measure cells in two environments, and compare the latencies and the outputs.

    Args:
        cells: cells of this process's environment.
        requests: what is other in A and in B; of one alone it is B, and A is this process's environment.
        goal: when a cell has been measured enough; its margin is the largest difference that counts as noise.
        observer: told of every step.
        limits: time and memory of each process.
        may_be_large: whether downloads of gigabytes are allowed.

    Raises:
        InputError: an environment concerns none of the cells.
    """
    sides = (None, *requests) if len(requests) == 1 else tuple(requests)
    pairs = {cell: tuple(_side(cell, side, may_be_large) for side in sides) for cell in cells}
    pairs = {cell: pair for cell, pair in pairs.items() if any(each not in (None, cell) for each in pair)}
    for index, side in enumerate(sides):
        if side is not None and not any(pair[index] for pair in pairs.values()):
            raise versions.unconcerned(side, cells)
    sought = [(pair[0], pair[1]) for pair in pairs.values()]
    measured = side_by_side.measure(sought, Method(limits=limits), goal, observer, compares_outputs=True)
    changes = [dataclasses.replace(change, cell=cell.path) for cell, change in zip(pairs, measured, strict=True)]
    names = [here(requests[0]) if side is None else side.text for side in sides]
    when = machines.headline_today()
    before, after = (Side(name=name, machine=machine.name(), num_cells=len(pairs), measured=when) for name in names)
    return Compared(before=before, after=after, how=PAIRED, changes=judged(changes, margin=goal.aims.margin))


def here(other: Asked) -> str:
    """What this process's environment has of what another environment has otherwise, as `onnxruntime 1.31.1`."""
    own = environments.own()
    if other.python:
        return f"Python {own.python} of this command"
    packages = {canonicalize_name(name): version for name, version in own.packages.items()}
    return ", ".join(f"{name} {packages.get(canonicalize_name(name), 'not installed')}" for name in other.requirements)


def _side(cell: Cell, side: Asked | None, may_be_large: bool) -> Cell | None:
    return cell if side is None else versions.changed(cell, side, may_be_large)
