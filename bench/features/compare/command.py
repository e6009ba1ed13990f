"""`bench compare`: what changed between two folders of results, two cells, or two git revisions of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.api.errors import InputError
from bench.cli import options, units

if TYPE_CHECKING:
    from bench.features.compare.changes import Compared
    from bench.measure.goal import Goal
    from bench.pipeline.environment_request import Asked
    from bench.tasks.adopt import Options

_WORSE = 1
"""Exit code with `--strict` where a cell is slower, newly failed or newly broken; of versions, where one failed."""
_BUDGET = "5m"
"""Time for measuring two revisions, unless `--budget` is given."""

_Names = Annotated[
    list[str] | None,
    typer.Argument(
        help="A and B: folders of results, cells, or with --model git revisions; then globs over cells. "
        "With --with or --python globs alone.",
        metavar="[A B] [GLOBS]...",
        show_default=False,
    ),
]
_Force = Annotated[bool, typer.Option("--force", help="Compare different machines.")]
_Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Exit with 1 when a cell is slower, or newly failed or broken; of versions, if failed."
    ),
]
_InWorkTree = Annotated[
    Path | None,
    typer.Option("--model", help="A model of your own in a git work tree, to measure at both revisions."),
]
_Budget = Annotated[str, typer.Option(help="Time for measuring two revisions.")]
_Launches = Annotated[int, typer.Option(min=2, help="Most launches of a cell of a revision.")]


def compare(
    names: _Names = None,
    *,
    versions: options.With = None,
    python: options.Pythons = None,
    yes: options.Yes = False,
    format: options.Tables = "table",
    margin: options.Margin = "2%",
    results: options.Results = options.RESULTS,
    force: _Force = False,
    strict: _Strict = False,
    blame: options.Blame = False,
    model: _InWorkTree = None,
    dataset: options.Dataset = None,
    metric: options.Metric = None,
    judged: options.Judged = None,
    dim: options.Dims = None,
    shape: options.Shapes = None,
    trust: options.Trust = False,
    browser: options.Browser = None,
    budget: _Budget = _BUDGET,
    launches: _Launches = 6,
) -> None:
    """What changed from A to B: each cell's ratio with its interval, and verdicts corrected for how many there are.

    Two revisions of a model, and two versions of a package (--with A --with B), are measured now, side by side; results
    and cells were measured before.
    """
    from bench.features.compare import render as report
    from bench.features.compare import worst
    from bench.features.compare.changes import stored
    from bench.measure.goal import Goal
    from bench.measure.questions import Aims
    from bench.records.reading import note_of

    description = options.own_model(dataset, dim, shape, trust, metric, judged, is_named=model is not None)
    share = units.share(margin)
    goal = Goal(aims=Aims(margin=share), max_launches=launches, budget_s=units.seconds(budget))
    of_versions = bool(versions or python)
    if not of_versions and len(names or []) < 2:
        raise InputError("say what to compare: A and B, or --with PACKAGE==VERSION")
    if of_versions:
        model = options.here(model, trust, may_be_large=yes) if model is not None else None
        wanted = options.environments(versions, python)
        compared = _versions(names or [], model, description, wanted, goal, may_be_large=yes)
    elif model is not None:
        compared = _revisions(names or [], model, description, goal)
    else:
        before, after, *globs = names or []
        compared = stored(before, after, globs, results=results, margin=share, force=force)
    try:
        if blame:
            compared = worst.blamed(compared, tell=options.say)
    finally:  # a Ctrl-C meanwhile does not lose what was measured
        options.say_notes(filter(None, [note_of(compared.damages)]))
        options.write(report.render(compared, format=format), None)
    if strict and (compared.has_worse or (of_versions and compared.has_failed)):
        raise typer.Exit(_WORSE)


def _revisions(names: list[str], model: Path, description: Options, goal: Goal) -> Compared:
    """Compare two git revisions of a model.

    Args:
        names: the revisions, and globs over cells.

    Raises:
        InputError: the model is one of the hub.
    """
    from bench.cli import progress
    from bench.features.compare import revisions
    from bench.report.terminal import Console

    if str(model).startswith("hf:"):
        raise InputError(
            "revisions of git are compared in a work tree; `bench check hf:org/name@OLD hf:org/name@NEW` compares two "
            "of the hub"
        )
    before, after, *globs = names
    with progress.observer(Console(stderr=True)) as watch:
        return revisions.compare((before, after), model, description, globs, goal, watch, say=options.say_notes)


def _versions(
    globs: list[str], model: Path | None, description: Options, wanted: list[Asked], goal: Goal, *, may_be_large: bool
) -> Compared:
    """Compare two environments on the cells of a model, or on those that globs name.

    Raises:
        InputError: there are not two environments, or no cells are named.
    """
    from bench.api import loading
    from bench.cli import progress
    from bench.features.compare import versions
    from bench.measure.limits import Limits
    from bench.pipeline import selection, sweeps
    from bench.report.terminal import Console
    from bench.tasks import adopt

    if len(wanted) > 2:
        raise InputError(f"two environments are compared, not {len(wanted)}; `bench run` takes any number of --with")
    if model is not None:
        adopted = adopt.adopt(model, description)
        options.say_notes(adopted.notes)
        cells = (
            selection.select([f"{adopted.name}/{glob}" for glob in globs], None)
            if globs
            else sweeps.plain(adopted.name)
        )
    elif globs:
        tasks = [glob for glob in globs if glob in loading.find("models")]  # the plain exports, as of a model
        others = [glob for glob in globs if glob not in tasks]
        cells = [cell for task in tasks for cell in sweeps.plain(task)] + (
            selection.select(others, None) if others else []
        )
    else:
        raise InputError("say which cells to compare: globs, or --model FILE")
    limits = Limits.of(step_s=None, memory_bytes=None)
    with progress.observer(Console(stderr=True)) as watch:
        return versions.compare(cells, wanted, goal, watch, limits=limits, may_be_large=may_be_large)


COMMANDS = {"Decide": {"compare": compare}}
"""The command, under its heading of `bench --help`."""
