"""The measured cell that runs a user's model as it is, at one of the sizes that were measured."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.api import Task
from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.api.names import BATCH, TaskName
from bench.onnxfile.shapes import size_options
from bench.pipeline import provenance, sizing, sweeps
from bench.plugins import catalog
from bench.records.folder import Results
from bench.records.store import Record
from bench.tasks import adopt
from bench.tasks.adopt import Adopted, Options

_MOST_NAMED = 3
"""Cells at other sizes that a message names."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlainCell:
    """A measured cell that runs a user's model as it is.

    Attributes:
        path: path of the cell.
        notes: lines to tell the user about the sizes.
    """

    path: str
    notes: tuple[str, ...]


def plain_cell(stored: Results, model: Path, options: Options) -> PlainCell:
    """The measured cell that runs a model as it is: at the sizes of the options, or at the largest sizes measured.

    Args:
        stored: the stored results of one machine.
        model: path of the model.
        options: as `adopt.adopt` takes them; with sizes, of a single size for each dimension.

    Raises:
        InputError: the model cannot be used, or was not measured at such sizes; the message names those that were.
    """
    dims = size_options.dims_from(options.dims)
    measured: list[Cell] = []
    for adopted, own in _adopted(stored, model, options, dims):
        name = adopted.name
        cells = _of_model(stored, name)
        wanted = [cell for cell in cells if _is_at(cell, name, own, dims)]
        if wanted:
            chosen, *others = sorted(wanted, key=lambda cell: _order(cell, name))
            notes = adopted.notes if chosen.task == TaskName(name) else ()
            return PlainCell(path=chosen.path, notes=(*notes, *(() if dims else _others(chosen, others))))
        measured += cells
    if measured:
        sizes = ", ".join(f"{dim}={size}" for dim, size in dims.items())
        raise InputError(f"{model} was not measured at {sizes}; {_named(measured)}")
    raise InputError(f"{model} was not measured; `bench run --model {shlex.quote(str(model))}` measures it")


def _adopted(
    stored: Results, model: Path, options: Options, dims: Mapping[str, int]
) -> Iterator[tuple[Adopted, Mapping[str, int]]]:
    """The tasks that a run may have made of the model, each with the sizes that were told when it was made.

    A run at one size has made a task of that size, and a run at several sizes a task of the sizes that are found. The
    last task that was yielded is the one that its name stands for.

    Raises:
        InputError: nothing can be made of the model with the options.
    """
    own = {dim: size for dim, size in dims.items() if dim != BATCH}
    results = stored.folder.parent
    first = adopt.adopt(model, _with(options, own), sized=own, results=results)
    yield first, own
    tried = [own]
    if own:
        with contextlib.suppress(InputError):  # it may run with none of the sizes that are found
            yield adopt.adopt(model, _with(options, {}), sized=own, results=results), {}
        tried.append({})
    for digest in dict.fromkeys(_family(record) for record in _records(stored, first.name)):
        task = adopt.recall(first.name, functools.partial(_is_of, digest))
        sizes = dict(getattr(task, "sizes", {}))
        if task is not None and sizes not in tried:
            tried.append(sizes)
            with contextlib.suppress(InputError):  # another model of that name
                yield adopt.adopt(model, _with(options, sizes), sized=sizes, results=results), sizes


def _is_of(digest: str | None, task: Task) -> bool:
    return provenance.task_digest(task) == digest


def _with(options: Options, sizes: Mapping[str, int]) -> Options:
    return dataclasses.replace(options, dims=tuple(f"{dim}={size}" for dim, size in sizes.items()))


def _records(stored: Results, name: str) -> list[Record]:
    """The records of a task at any sizes, whose cells run its model as it is."""
    of_name = [record for record in stored.records.values() if record.cell.task.model == name]
    baselines = {
        key: sweeps.baselines(name, *key) for key in {(record.cell.batch, record.cell.threads) for record in of_name}
    }
    return [
        record
        for record in of_name
        if dataclasses.replace(record.cell, task=TaskName(name)) in baselines[record.cell.batch, record.cell.threads]
    ]


def _family(record: Record) -> str | None:
    return record.header.family or next(iter(record.header.subject), None)


def _of_model(stored: Results, name: str) -> list[Cell]:
    """The plain cells of the task that a name stands for now, without those of other models of that name."""
    digest = provenance.task_digest(catalog.task(name))
    return [record.cell for record in _records(stored, name) if _family(record) == digest]


def _is_at(cell: Cell, name: str, own: Mapping[str, int], dims: Mapping[str, int]) -> bool:
    """Whether a cell is at the sizes that are asked for, of which the task has some already."""
    task = catalog.task(name)
    batch = next((size for dim, size in dims.items() if sizing.is_batch(task, dim)), cell.batch)
    sizes = {dim: size for dim, size in dims.items() if not sizing.is_batch(task, dim)}
    return cell.batch == batch and (not sizes or cell.task == TaskName(name).at({} if sizes == own else sizes))


def _order(cell: Cell, name: str) -> tuple[bool, list[int], int, int]:
    """The task's own sizes first, then the largest, where a node's time says most; one sample and one thread first."""
    return cell.task != TaskName(name), [-size for _, size in cell.task.sizes], cell.batch, cell.threads


def _others(chosen: Cell, others: list[Cell]) -> tuple[str, ...]:
    return (f"this is {chosen.path}; {_named(others)}",) if others else ()


def _named(cells: list[Cell]) -> str:
    """Measured cells that a user may name instead; of many, the first ones."""
    paths = list(dict.fromkeys(cell.path for cell in cells))
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return f"`bench explain` also takes {', '.join(paths[:_MOST_NAMED])}{more}"
