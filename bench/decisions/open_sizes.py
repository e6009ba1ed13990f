"""Files that take fewer sizes than the model that they were made of, though nobody named these sizes."""

from __future__ import annotations

from bench.api import loading, sized
from bench.api.cell import Cell
from bench.api.errors import BenchError
from bench.plugins import catalog
from bench.tasks import adopt
from bench.tasks.user_task import DATASET, OwnTask


def are_fixed(path: str) -> bool:
    """Whether the file of a cell takes guessed sizes alone, of a model of one's own that takes any.

    The sizes are guessed where the inputs are made up and the name of the request tells no sizes.

    Args:
        path: path of the cell.
    """
    return freezes(cell := Cell.from_path(path)) and bool(guessed(cell.task))


def freezes(cell: Cell) -> bool:
    """Whether a step of a cell fixes the dimensions of the inputs but the batch; not for plugins that are not here."""
    try:
        variants = [catalog.variant(name).variant for name in cell.chain]
        return catalog.exporter(cell.exporter).freezes or any(variant.freezes for variant in variants)
    except BenchError:
        return False


def guessed(task: str) -> dict[str, int]:
    """By dimension, the sizes of made-up inputs that neither the name of a request nor the model tells."""
    family = sized.family_of(task)
    if family in loading.find("models"):
        found = catalog.task(family)
    elif (recalled := adopt.recall(family)) is not None:
        found = recalled
    else:
        return {}
    if not isinstance(found, OwnTask) or (found.folder / DATASET).is_file():
        return {}
    named = sized.sizes_of(task)
    return {dim: size for dim, size in found.sizes.items() if sized.spelled(dim) not in named}
