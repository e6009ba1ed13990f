"""`bench compare`: what changed between two folders of results, two cells, or two git revisions of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli import options, units

WORSE = 1
"""Exit code with `--strict` where a cell is slower, newly failed or newly broken."""
BUDGET = "5m"
"""Time for measuring two revisions, unless `--budget` is given."""


def compare(
    before: Annotated[
        str, typer.Argument(help="A folder of results, a cell, or with --model a git revision.", metavar="A")
    ],
    after: Annotated[str, typer.Argument(help="Another one, to compare with it.", metavar="B")],
    globs: options.Globs = None,
    *,
    format: options.Tables = "table",
    margin: options.Margin = "2%",
    results: options.Results = options.RESULTS,
    force: Annotated[bool, typer.Option("--force", help="Compare different machines.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 when a cell is slower, newly failed or newly broken.")
    ] = False,
    model: Annotated[
        Path | None, typer.Option(help="A model of your own in a git work tree, to measure at both revisions.")
    ] = None,
    dataset: options.Dataset = None,
    dim: options.Dims = None,
    shape: options.Shapes = None,
    trust: options.Trust = False,
    budget: Annotated[str, typer.Option(help="Time for measuring two revisions.")] = BUDGET,
    launches: Annotated[int, typer.Option(min=2, help="Most launches of a cell of a revision.")] = 6,
) -> None:
    """What changed from A to B: each cell's ratio with its interval, and verdicts corrected for how many there are.

    Two revisions of a model are measured now, side by side; results and cells were measured before.
    """
    from bench.measure.questions import Aims
    from bench.measure.rounds import Goal
    from bench.records.reading import told
    from bench.report import compare as report

    given = options.own_model(dataset, dim, shape, trust, is_named=model is not None)
    share = units.share(margin)
    if model is not None:
        from bench.cli.progress import Watch
        from bench.decisions import revisions
        from bench.report.terminal import Console

        goal = Goal(aims=Aims(margin=share), max_launches=launches, budget_s=units.seconds(budget))
        names, watch = (before, after), Watch(Console(stderr=True))
        compared = revisions.compare(names, model, given, globs or [], goal, watch, say=options.say_notes)
    else:
        from bench.decisions.compare import stored

        compared = stored(before, after, globs or (), results=results, margin=share, force=force)
    options.say_notes(filter(None, [told(compared.damages)]))
    options.write(report.render(compared, format=format), None)
    if strict and compared.has_worse:
        raise typer.Exit(WORSE)
