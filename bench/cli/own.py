"""A model of one's own as the task that a command is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.cli import options
from bench.measure.limits import Limits
from bench.pipeline import sizing
from bench.tasks import names
from bench.tasks.adopt import Adopted, Options


def adopted(
    model: Path, description: Options, axes: Mapping[str, tuple[int, ...]], limits: Limits, results: Path
) -> tuple[Adopted, dict[str, tuple[int, ...]]]:
    """The task of a model and the sizes to measure, see `sizing.adopted`; its name is kept with the results.

    Raises:
        InputError: as `sizing.adopted`.
    """
    task, axes = sizing.adopted(model, description, axes, limits, results=results)
    if task.chosen is not None:
        names.keep(results, task.chosen)
    options.say_notes(task.notes)
    return task, axes
