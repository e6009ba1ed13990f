"""Cells at several sizes: `--dim tokens=16,64 --dim batch=1,4` makes every combination of each cell."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench.api import Task
from bench.api.cell import Cell
from bench.api.errors import ChildError, InputError
from bench.api.names import BATCH, TaskName
from bench.measure.limits import Limits
from bench.onnxfile.shapes import size_options
from bench.plugins import catalog
from bench.tasks import adopt


def at_sizes(cells: Iterable[Cell], axes: Mapping[str, Sequence[int]]) -> list[Cell]:
    """The cells at every combination of sizes: the batch is a part of the path, other sizes are of the task's name.

    Args:
        cells: cells of tasks at their own sizes.
        axes: sizes by dimension; `batch` is the name of every task's first axis, if that is of the samples.

    Raises:
        InputError: a task has no such dimension, or not with any size.
    """
    combinations = [dict(zip(axes, sizes, strict=True)) for sizes in itertools.product(*axes.values())]
    sized_cells: dict[Cell, None] = {}
    for cell, sizes in itertools.product(cells, combinations):
        task = catalog.task(cell.task)
        own = {dim: size for dim, size in sizes.items() if not is_batch(task, dim)}
        if own and cell.task.sizes:
            raise InputError(f"{cell.task} tells its sizes already: leave {', '.join(own)} out of --dim")
        batch = next((size for dim, size in sizes.items() if is_batch(task, dim)), cell.batch)
        if batch < 1:
            first = next(dim for dim in sizes if is_batch(task, dim))
            raise InputError(f"a batch has 1 sample or more, not {batch}: write {size_options.option(first, 1)}")
        fixed = {spec.shape[0] for spec in task.inputs if isinstance(spec.shape[0], int)} if task.batched else set()
        if batch != cell.batch and fixed and fixed != {batch}:
            raise InputError(f"the model of {task.name} takes batches of {fixed.pop()} only")
        at = dataclasses.replace(cell, task=cell.task.at(own) if own else cell.task, batch=batch)
        # The task refuses dimensions that it does not have, and names sizes that it had to choose.
        sized_cells[dataclasses.replace(at, task=TaskName.parse(catalog.task(at.task).name))] = None
    return list(sized_cells)


def adopted(
    path: Path,
    options: adopt.Options,
    axes: Mapping[str, tuple[int, ...]],
    limits: Limits,
    *,
    results: Path | None = None,
) -> tuple[adopt.Adopted, dict[str, tuple[int, ...]]]:
    """Make a task of a model, whose identity does not depend on which sizes are measured.

    Args:
        path: as `adopt.adopt` takes it.
        options: likewise, without sizes.
        axes: sizes by dimension. A single size is the task's own; several are measured one by one.
        limits: time and memory of each child process that opens the model.
        results: as for `adopt.adopt`.

    Returns:
        The task, and the sizes to measure.

    Raises:
        InputError: as `adopt.adopt`.
    """
    own = {dim: sizes[0] for dim, sizes in axes.items() if len(sizes) == 1 and dim != BATCH}
    adopted_at = functools.partial(adopt.adopt, path, sized=axes, limits=limits, results=results)
    try:
        adoption = adopted_at(_with_sizes(options, own))
    except InputError as error:
        if len(own) == len(axes) or (isinstance(error.__cause__, ChildError) and error.__cause__.kind == "timeout"):
            raise
        # It may run with none of the sizes that are guessed.
        firsts = {dim: sizes[0] for dim, sizes in axes.items()}
        adoption = adopt.adopt(path, _with_sizes(options, firsts), limits=limits, results=results)
    task = catalog.task(adoption.name)
    if len(axes.get(BATCH, ())) == 1 and not is_batch(task, BATCH):  # a dimension like any other
        adoption = adopted_at(_with_sizes(options, {**own, BATCH: axes[BATCH][0]}))
    return adoption, {dim: sizes for dim, sizes in axes.items() if len(sizes) > 1 or is_batch(task, dim)}


def _with_sizes(options: adopt.Options, sizes: Mapping[str, int]) -> adopt.Options:
    return dataclasses.replace(options, dims=tuple(f"{dim}={size}" for dim, size in sizes.items()))


def is_batch(task: Task, dim: str) -> bool:
    """Whether a name stands for the axis of the samples."""
    return task.batched and dim in {BATCH, *(spec.shape[0] for spec in task.inputs)}
