"""`bench explain`: where a measured cell's time goes, what its steps changed, what runs where, and where it drifts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli import options, units

if TYPE_CHECKING:
    from bench.records.folder import Results
    from bench.tasks.adopt import Options


def explain(
    cell: Annotated[
        str,
        typer.Argument(
            help="A measured cell: its path, a glob over it, or the file of a model of your own for its plain cell.",
            show_default=False,
        ),
    ],
    *,
    vs: Annotated[
        str | None,
        typer.Option("--vs", help="Measured cell to compare with; the same without its variants by default."),
    ] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(help="Error that is no drift, as a share of a tensor's magnitude; the task's own by default."),
    ] = None,
    dataset: options.Dataset = None,
    metric: options.Metric = None,
    judged: options.Judged = None,
    dim: options.Dims = None,
    shape: options.Shapes = None,
    trust: options.Trust = False,
    browser: options.Browser = None,
    results: options.Results = options.RESULTS,
    format: options.Tables = "table",
) -> None:
    """Why a cell is as fast and as right as it is: time by operator, steps, providers, and where drift first appears.

    Beside another cell. Its artifact is profiled anew, on this machine.
    """
    from bench.api import features
    from bench.api.errors import InputError
    from bench.features.explain import render as report
    from bench.features.explain.explanation import explain as find
    from bench.measure.limits import Limits
    from bench.report.terminal import Console
    from bench.tasks.adopt import Options

    stored = options.read(results)
    model_options = options.own_model(dataset, dim, shape, trust, metric, judged)
    named = [cell, *([vs] if vs else [])]
    names = [str(options.here(Path(name), trust)) if name.startswith("hf:") else name for name in named]
    if model_options != Options() and not any(_is_model(stored, named) for named in names):
        raise InputError(
            f"--dataset, --metric, --output, --dim, --shape and --trust are about the file of a model, and {cell} is a "
            "cell, which has its own",
            fix="leave them out, or name a file",
        )
    chosen, *others = [_one(stored, named, model_options) for named in names]
    other = others[0] if others else None
    most = units.share(tolerance, zero=True) if tolerance else None
    with Console(stderr=True).status(f"explaining {chosen}"):
        explanation = find(stored, chosen, other, tolerance=most, limits=Limits.of(step_s=None, memory_bytes=None))
        additions = [module.addition(stored, explanation.after.cell) for module in features.modules("explain")]
        explanation = dataclasses.replace(explanation, additions=additions)
    options.write(report.render(explanation, format=format), None)


def _is_model(stored: Results, named: str) -> bool:
    """Whether a text is the path of a model rather than a glob over the measured cells."""
    from bench.api.cell import Cell, matching

    return Path(named).exists() and not matching((Cell.from_path(row.cell) for row in stored.rows), named)


def _one(stored: Results, named: str, model_options: Options) -> str:
    """The path of the one cell that a glob or a model's file names.

    Raises:
        InputError: the glob names no cell, or several; or the model was not measured, or cannot be used.
    """
    from bench.api.errors import InputError
    from bench.features.explain.model_cells import plain_cell

    if _is_model(stored, named):
        plain = plain_cell(stored, Path(named), model_options)
        options.say_notes(plain.notes)
        return plain.path
    paths = [row.cell for row in stored.chosen([named])]
    if len(paths) > 1:
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        raise InputError(f"one cell at a time; {named!r} names {', '.join(paths[:3])}{more}")
    return paths[0]


COMMANDS = {"Inspect": {"explain": explain}}
"""The command, under its heading of `bench --help`."""
