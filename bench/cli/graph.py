"""`bench graph`: compare ONNX models, look at them, and cut them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.api.errors import InputError
from bench.cli import options
from bench.cli.options import Dims, Inputs, Model, Observe, Shapes
from bench.graphs import requests

app = typer.Typer(help="Compare ONNX models, look at them, and cut them.", no_args_is_help=True)
Target = Annotated[Path, typer.Argument(help="File to write.", show_default=False)]


@app.command()
def diff(
    before: Model,
    after: Annotated[
        Path, typer.Argument(help="Another .onnx file, as what an optimizer made of it.", show_default=False)
    ],
    *,
    format: options.Plain = "table",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 where they differ.")] = False,
) -> None:
    """Whether two models are the same computation, how often each operator is in them, and what differs."""
    from rich.console import Console

    from bench.pipeline.files import ask, readable
    from bench.report.diff import diff_view

    found = ask("compare", requests.diff, before, other=readable(after))
    view = diff_view(before.name, after.name, found)
    if format == "json":
        typer.echo(view.as_json(), nl=False)
    else:
        Console().print(view.as_table())
    if strict and not found["equal"]:
        raise typer.Exit(1)


@app.command()
def text(model: Model, *, output: options.Output = None) -> None:
    """A model as text, in onnx's own form; large weights are given by their place in the file."""
    from bench.pipeline.files import ask

    options.write(ask("print", requests.text, model)["text"], output)


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
    from bench.pipeline.files import ask

    if target.suffix != ".svg":
        raise InputError(f"a picture is an SVG file; {target} does not end with .svg")
    found = ask("draw", requests.picture, model, **options.inputs_of(shape, dim, inputs, observe))
    options.write(found["svg"], target)
    typer.echo("\n".join([str(target), *(f"note: {note}" for note in found["notes"])]))


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
    from bench.pipeline.files import ask

    found = ask("cut", requests.extract, model, target=str(target.absolute()), inputs=input or [], outputs=output or [])
    ends = [f"{kind} {name} {what}" for kind in ("input", "output") for name, what in found[f"{kind}s"].items()]
    typer.echo("  ".join([str(target), f"{found['num_nodes']} of {found['num_nodes_before']} nodes", *ends]))


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
    from bench.pipeline.files import ask

    given = options.inputs_of(shape, dim, inputs, observe)
    found = ask("cut", requests.split, model, folder=str(folder.absolute()), num_parts=parts, **given)
    for part in found["parts"]:
        share = f"{100 * part['cost'] / found['cost']:.1f} % of {found['unit']}"
        ends = f"{', '.join(part['inputs'])} -> {', '.join(part['outputs'])}"
        typer.echo(f"{folder / part['file']}  {part['num_nodes']} nodes  {share}  {ends}")


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
    from bench.pipeline.files import ask

    given = options.sizes(shape, dim)
    found = ask("fold", requests.fold, model, target=str(target.absolute()), free=free or [], **given)
    typer.echo(f"{target}  {found['num_nodes']} nodes of {found['num_nodes_before']}")
