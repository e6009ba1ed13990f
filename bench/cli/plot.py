"""`bench plot`: figures of stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.api.errors import InputError
from bench.cli import options, waiting


def plot(
    globs: options.Globs = None,
    *,
    baseline: Annotated[str | None, typer.Option(help="Cell to compare with, instead of each task's own.")] = None,
    results: options.Results = options.RESULTS,
    output: Annotated[Path | None, typer.Option(help="Folder for the pictures; beside the results by default.")] = None,
) -> None:
    """Figures as PNG and SVG: latency, accuracy against latency, share of the peak, memory and size, latency by size.

    Also those of services under load, and one figure of all tasks, for a light and for a dark page: each runtime's best
    deployment, and which to ship.
    """
    from bench.api import features
    from bench.api.loss_units import AllowedLoss
    from bench.decisions.answer import answers
    from bench.decisions.constraints import Constraints
    from bench.decisions.sizes import families
    from bench.records import assemble
    from bench.report import excerpt
    from bench.report.figures import overview, plots, size_plots

    stored = options.read(results, baseline=baseline)
    higher = assemble.higher_is_better(stored.records)
    rows, place = stored.chosen(globs), output or stored.folder / "plots"
    drawn = excerpt.of(rows, (), excerpt.MOST_DRAWN)
    if len(drawn) < len(rows):
        options.say(excerpt.sentence("", len(drawn), len(rows)))
    paths = plots.draw(drawn, place, higher_is_better=higher)
    paths += size_plots.draw(families(stored.measurements, drawn), place)
    paths += [path for module in features.modules("plots") for path in module.paths(stored, drawn, place)]
    with waiting.reporting(f"comparing {len(rows)} cells", options.say):
        decided = answers(stored.measurements, rows, Constraints(max_metric_loss=AllowedLoss()))
    paths += overview.draw(decided, place)
    if not paths:
        raise InputError("nothing to draw: no cell has been timed; `bench run` measures")
    options.tell(*map(str, paths))
