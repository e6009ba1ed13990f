"""Files that take fewer sizes than the model that they were made of, though nobody named these sizes."""

from __future__ import annotations

from collections.abc import Iterable

from bench.api import loading
from bench.api.cell import Cell
from bench.api.errors import BenchError
from bench.api.names import TaskName, spelled
from bench.onnxfile.shapes.stated_sizes import stated
from bench.plugins import catalog
from bench.tasks import adopt
from bench.tasks.user_task import DATASET, OwnTask


def of_guessed_sizes(task: TaskName, paths: Iterable[str]) -> list[str]:
    """The cells of a task whose file takes guessed sizes alone, where it is a model of one's own that takes any.

    The sizes are guessed where the inputs are made up and the name of the request tells no sizes.

    Args:
        task: the request.
        paths: paths of the cells.
    """
    is_here = task.model in loading.find("models")
    if is_here and not guessed(task):
        return []  # without opening each variant's file
    fixed = [path for path in paths if freezes(Cell.from_path(path))]
    return fixed if fixed and guessed(task) else []


def freezes(cell: Cell) -> bool:
    """Whether a step of a cell fixes the dimensions of the inputs but the batch; not for plugins that are not here."""
    try:
        variants = [catalog.variant(name).variant for name in cell.chain]
        return catalog.exporter(cell.exporter).freezes or any(variant.freezes for variant in variants)
    except BenchError:
        return False


def guessed(task: TaskName) -> dict[str, int]:
    """By dimension, the sizes of made-up inputs that neither the name of a request nor the model tells.

    None of a task that is not here, or that cannot be opened.
    """
    own_task = _own_task(task)
    if own_task is None or not has_made_up_inputs(task):
        return {}
    named = dict(task.sizes)
    return {dim: own_task.sizes[dim] for dim in stated(own_task.sizes).dims if spelled(dim) not in named}


def has_made_up_inputs(task: TaskName) -> bool:
    """Whether the inputs of a task are made up: a model of one's own without a data set.

    False of a task that is not here, or that cannot be opened.
    """
    own_task = _own_task(task)
    return own_task is not None and not (own_task.folder / DATASET).is_file()


def _own_task(task: TaskName) -> OwnTask | None:
    """The task of a model of one's own; None of another task, and of a model that cannot be opened."""
    try:
        opened = catalog.task(task.model) if task.model in loading.find("models") else adopt.recall(task.model)
    except BenchError:
        return None
    return opened if isinstance(opened, OwnTask) else None
