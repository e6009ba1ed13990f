"""The cells that `bench run` measures, and the time for them."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.api import loading
from bench.api.cell import Cell
from bench.api.names import TaskName
from bench.cli import options
from bench.measure.limits import Limits
from bench.pipeline import isolated, selection, sizing, sweeps
from bench.pipeline.sweep_options import Options
from bench.plugins import catalog
from bench.tasks import adopt, names

_FIRST_TABLE_S = 15
"""Time for measuring a model of one's own, at each combination of sizes, unless `--budget` is given."""
_FIRST_RUN_S = 25
"""Time for all steps together to end by then: on a slow machine, measuring gets less, see `Options.ends_s`."""
_FIRST_CELLS = "*/b1t1"
"""The cells of the full sweep that are measured then: so short a time answers one request, not two."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `bench run` that say which cells to measure.

    Attributes:
        globs: globs over cells.
        sweep: the name of a sweep.
        axes: sizes to measure, by dimension.
        budget_s: seconds for measuring; None where no option says.
        runs_elsewhere: whether the cells are to run in other environments.
    """

    globs: Sequence[str] | None
    sweep: str | None
    axes: Mapping[str, tuple[int, ...]]
    budget_s: float | None
    runs_elsewhere: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """The cells of a run.

    Attributes:
        cells: the cells.
        sizes: of a model of one's own, the task's sizes by dimension.
        name: the name that such a model was given; None where it has it from before.
        budget_s: seconds for measuring; None for no limit.
        whole_s: seconds for all steps together; None for no limit.
        began_s: when the run began, by `time.monotonic`; the time of a download is before it.
    """

    cells: Sequence[Cell]
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    name: names.Chosen | None = None
    budget_s: float | None = None
    whole_s: float | None = None
    began_s: float

    def keep_name(self, results: Path) -> None:
        """Keep the name that a model was given, in the folder of the results."""
        if self.name is not None:
            names.keep(results, self.name)

    def timed(self, settings: Options, sweep: str | None, total_s: float | None) -> Options:
        """The settings of a sweep with the time for it, and with how it compares.

        Args:
            settings: the other settings.
            sweep: the name of the sweep.
            total_s: seconds for the whole run that an option gives.
        """
        across_threads = sweep == sweeps.threads.__name__
        aims = dataclasses.replace(settings.goal.aims, every_gain=sweep == sweeps.web.__name__)
        whole_s = total_s or self.whole_s
        budget_s = self.budget_s if total_s is None else min(self.budget_s or total_s, total_s)
        return dataclasses.replace(
            settings,
            goal=dataclasses.replace(settings.goal, budget_s=budget_s, aims=aims),
            ends_s=None if whole_s is None else self.began_s + whole_s,
            across_threads=across_threads,
            whole_split=settings.whole_split or across_threads,
        )


def of_globs(request: Request) -> Choice:
    """The cells that globs or a sweep name.

    Raises:
        InputError: a glob matches no cell, there is no such sweep, or a size is of no dimension.
    """
    began_s = time.monotonic()
    return Choice(cells=_selected(request), budget_s=request.budget_s, began_s=began_s)


def of_model(path: Path, description: adopt.Options, request: Request, limits: Limits, results: Path) -> Choice:
    """The cells of a model of one's own: without a glob or a sweep, those that make the first table.

    Args:
        path: the model.
        description: the options that describe it, without sizes.
        request: which cells to measure; globs are behind the task.
        limits: time and memory of each worker.
        results: folder of the results, which knows the names of models.

    Raises:
        InputError: the model cannot be taken, or as `of_globs`.
    """
    began_s = time.monotonic()
    adopted, axes = sizing.adopted(path, description, request.axes, limits, results=results)
    options.say_notes(adopted.notes)
    task = catalog.task(adopted.name)
    is_first = not request.globs and request.sweep is None
    globs = [adopted.glob(pattern) for pattern in request.globs or [_FIRST_CELLS if is_first else "*"]]
    narrowed = dataclasses.replace(request, globs=globs, sweep="full" if is_first else request.sweep, axes=axes)
    # A decoder is measured as it generates. Samples and sizes are those of a pass over all tokens.
    generates = is_first and task.decoder is not None and not (axes or description.dataset or description.shapes)
    cells = isolated.usable(sweeps.generating_cells(adopted.name)) if generates else _selected(narrowed)
    choice = Choice(
        cells=cells,
        sizes=getattr(task, "sizes", {}),
        name=adopted.chosen,
        budget_s=request.budget_s,
        began_s=began_s,
    )
    if not is_first or request.budget_s is not None:
        return choice
    num_sizes = len({cell.task for cell in cells}) if generates else math.prod(map(len, axes.values()))
    whole_s = None if generates else _FIRST_RUN_S * num_sizes  # to verify texts takes minutes anyway
    return dataclasses.replace(choice, budget_s=_FIRST_TABLE_S * num_sizes, whole_s=whole_s)


def _selected(request: Request) -> list[Cell]:
    """The cells that globs or a sweep name, at the sizes."""
    globs = list(request.globs or ())
    for name in dict.fromkeys(TaskName.parse(glob.partition("/")[0]).model for glob in globs):
        if name not in loading.find("models"):
            adopt.recall(name)  # a model of one's own, measured before
    return selection.select(
        globs, request.sweep, axes=request.axes, say=options.say, with_absent=request.runs_elsewhere
    )


def elsewhere(
    request: Request,
    cells: Sequence[Cell],
    versions: list[str] | None,
    pythons: list[Path] | None,
    *,
    may_be_large: bool,
) -> list[Cell]:
    """The cells of other versions that can be measured with what is here, see `options.with_versions`."""
    if not request.runs_elsewhere:
        return list(cells)
    others = options.with_versions(cells, versions, pythons, may_be_large=may_be_large)
    of_sweep = request.sweep is not None or not request.globs
    return selection.here(others, request.globs or (), of_sweep=of_sweep, say=options.say)
