"""`bench graph`: compare ONNX models, look at them, and cut them."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from bench.api.errors import InputError
from bench.cli.profile import Dims, Inputs, Model, Observe, Shapes, ask, dims_from, given, readable, shapes_from
from bench.graphs import requests

app = typer.Typer(help="Compare ONNX models, look at them, and cut them.", no_args_is_help=True)
Target = Annotated[Path, typer.Argument(help="File to write.", show_default=False)]


class Format(enum.StrEnum):
    """Formats of `bench graph diff`."""

    table = "table"
    json = "json"


@app.command()
def diff(
    before: Annotated[Path, typer.Argument(help="An .onnx file.", show_default=False)],
    after: Annotated[Path, typer.Argument(help="Another one, as what an optimizer made of it.", show_default=False)],
    *,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.table,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 where they differ.")] = False,
) -> None:
    """Whether two models are the same computation, how often each operator is in them, and what differs."""
    from rich.console import Console

    from bench.report.diff import diff_view

    found = ask("compare", requests.diff, before, other=readable(after))
    view = diff_view(before.name, after.name, found)
    if format is Format.json:
        typer.echo(view.as_json(), nl=False)
    else:
        Console().print(view.as_table())
    if strict and not found["equal"]:
        raise typer.Exit(1)


@app.command()
def text(
    model: Model, *, output: Annotated[Path | None, typer.Option(help="File to write instead of printing.")] = None
) -> None:
    """A model as text, in onnx's own form; large weights are given by their place in the file."""
    from bench.records.store import write_atomically

    content = ask("print", requests.text, model)["text"]
    if output is None:
        typer.echo(content, nl=False)
    else:
        write_atomically(output, content)


@app.command()
def picture(
    model: Model,
    target: Target,
    *,
    shape: Shapes = None,
    dim: Dims = None,
    inputs: Inputs = None,
    observe: Observe = True,
) -> None:
    """A picture of a model as SVG: each node with its shapes, weights and MACs."""
    from bench.records.store import write_atomically

    if target.suffix != ".svg":
        raise InputError(f"a picture is an SVG file; {target} does not end with .svg")
    found = ask("draw", requests.picture, model, **given(shape, dim, inputs, observe))
    write_atomically(target, found["svg"])
    _say(target, [], found["notes"])


@app.command()
def extract(
    model: Model,
    target: Target,
    *,
    input: Annotated[
        list[str] | None, typer.Option(help="Tensor to begin at; the model's inputs if none is given.")
    ] = None,
    output: Annotated[
        list[str] | None, typer.Option(help="Tensor to end at; the model's outputs if none is given.")
    ] = None,
) -> None:
    """The part of a model between some of its tensors, as a model of its own."""
    found = ask("cut", requests.extract, model, target=str(target.absolute()), inputs=input or [], outputs=output or [])
    lines = [f"{found['num_nodes']} of {found['num_nodes_before']} nodes"]
    lines += [f"{kind} {name} {what}" for kind in ("input", "output") for name, what in found[f"{kind}s"].items()]
    _say(target, lines)


@app.command()
def split(
    model: Model,
    folder: Annotated[Path, typer.Argument(help="Folder for the parts.", show_default=False)],
    *,
    parts: Annotated[int, typer.Option(min=1, help="How many parts of equal cost.")] = 2,
    shape: Shapes = None,
    dim: Dims = None,
    inputs: Inputs = None,
    observe: Observe = True,
) -> None:
    """A model in consecutive parts of equal cost, which give the same outputs one after the other."""
    arguments = given(shape, dim, inputs, observe)
    found = ask("cut", requests.split, model, folder=str(folder.absolute()), num_parts=parts, **arguments)
    for part in found["parts"]:
        share = f"{100 * part['cost'] / found['cost']:.1f} % of {found['unit']}"
        what = f"{', '.join(part['inputs'])} -> {', '.join(part['outputs'])}"
        _say(folder / part["file"], [f"{part['num_nodes']} nodes", share, what])


@app.command()
def fold(
    model: Model,
    target: Target,
    *,
    shape: Shapes = None,
    dim: Dims = None,
    free: Annotated[list[str] | None, typer.Option(help="Dynamic dimension that stays so, as the batch.")] = None,
) -> None:
    """A model for given sizes, without the arithmetic of shapes: what can be computed beforehand is a constant."""
    arguments = {"shapes": shapes_from(shape), "dims": dims_from(dim), "free": free or []}
    found = ask("fold", requests.fold, model, target=str(target.absolute()), **arguments)
    _say(target, [f"{found['num_nodes']} nodes of {found['num_nodes_before']}"])


def _say(target: Path, lines: list[str], notes: list[str] | None = None) -> None:
    typer.echo("  ".join([str(target), *lines]))
    for note in notes or []:
        typer.echo(f"note: {note}")
