"""`bench graph`: compare models, look at them, and cut them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.api.errors import InputError
from bench.cli import options
from bench.cli.options import Dims, Inputs, Model, Observe, Shapes, Trust
from bench.onnxfile import requests

if TYPE_CHECKING:
    from bench.pipeline.graph_files import GraphFile

app = typer.Typer(
    help="Compare models, look at them, and cut them; of another format than ONNX their plain export to ONNX.",
    no_args_is_help=True,
)
Target = Annotated[Path, typer.Argument(help="ONNX file to write.", show_default=False)]


@app.command()
def diff(
    before: Model,
    after: Annotated[Path, typer.Argument(help="Another model, as what an optimizer made of it.", show_default=False)],
    *,
    shape: Shapes = None,
    dim: Dims = None,
    trust: Trust = False,
    format: options.Plain = "table",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 where they differ.")] = False,
) -> None:
    """Whether two models are the same computation, how often each operator is in them, and what differs."""
    from bench.features.graph.diff import diff_view
    from bench.pipeline.files import ask
    from bench.report.terminal import Console

    file, other = _whole(before, after, shape=shape, dim=dim, trust=trust)
    differences = ask("compare", requests.diff, file, other=str(other.path.absolute()))
    view = diff_view(before.name, after.name, differences)
    if format == "json":
        options.write(view.as_json(), None)
    else:
        Console().print(view.as_table())
    if strict and not differences["equal"]:
        raise typer.Exit(1)


@app.command()
def text(
    model: Model, *, shape: Shapes = None, dim: Dims = None, trust: Trust = False, output: options.Output = None
) -> None:
    """A model as text, in onnx's own form; large weights are given by their place in the file."""
    from bench.pipeline.files import ask

    (file,) = _whole(model, shape=shape, dim=dim, trust=trust)
    options.write(ask("print", requests.text, file)["text"], output)


@app.command()
def picture(
    model: Model,
    target: Annotated[Path, typer.Argument(help="SVG file to write.", show_default=False)],
    *,
    shape: Shapes = None,
    dim: Dims = None,
    inputs: Inputs = None,
    observe: Observe = True,
    trust: Trust = False,
) -> None:
    """A picture of a model as SVG: each node with its shapes, weights and MACs."""
    from bench.pipeline.files import ask

    if target.suffix != ".svg":
        raise InputError(f"a picture is an SVG file; {target} does not end with .svg", fix="name it model.svg, say")
    file = options.graph_file(model, shape, dim, trust)
    drawing = ask("draw", requests.picture, file, **options.inputs_of(file, inputs, observe))
    options.write(drawing["svg"], target)
    options.tell(str(target))
    _say_below(drawing["notes"])


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
    shape: Shapes = None,
    dim: Dims = None,
    trust: Trust = False,
) -> None:
    """The part of a model between some of its tensors, as a model of its own."""
    from bench.pipeline.files import ask

    (file,) = _whole(model, shape=shape, dim=dim, trust=trust)
    part = ask("cut", requests.extract, file, target=str(target.absolute()), inputs=input or [], outputs=output or [])
    ends = [f"{kind} {name} {what}" for kind in ("input", "output") for name, what in part[f"{kind}s"].items()]
    options.tell("  ".join([str(target), f"{part['num_nodes']} of {part['num_nodes_before']} nodes", *ends]))


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
    trust: Trust = False,
) -> None:
    """A model in consecutive parts of equal cost, which give the same outputs one after the other."""
    from bench.pipeline.files import ask

    file = options.graph_file(model, shape, dim, trust)
    arguments = options.inputs_of(file, inputs, observe)
    answer = ask("cut", requests.split, file, folder=str(folder.absolute()), num_parts=parts, **arguments)
    for part in answer["parts"]:
        share = f"{100 * part['cost'] / answer['cost']:.1f} % of {answer['unit']}"
        ends = f"{', '.join(part['inputs'])} -> {', '.join(part['outputs'])}"
        options.tell(f"{folder / part['file']}  {part['num_nodes']} nodes  {share}  {ends}")
    _say_below(answer["notes"])


@app.command()
def fold(
    model: Model,
    target: Target,
    *,
    shape: Shapes = None,
    dim: Dims = None,
    free: Annotated[list[str] | None, typer.Option(help="Dynamic dimension that stays so, as the batch.")] = None,
    trust: Trust = False,
) -> None:
    """A model for given sizes, without the arithmetic of shapes: what can be computed beforehand is a constant."""
    from bench.pipeline.files import ask

    file = options.graph_file(model, shape, dim, trust)
    sizes = {"shapes": file.shapes, "dims": file.dims, "free": free or []}
    answer = ask("fold", requests.fold, file, target=str(target.absolute()), **sizes)
    options.tell(f"{target}  {answer['num_nodes']} nodes of {answer['num_nodes_before']}")
    _say_below(answer["notes"])


def _say_below(notes: list[str]) -> None:
    options.tell(*(f"note: {note}" for note in notes))


def _whole(*models: Path, shape: list[str] | None, dim: list[str] | None, trust: bool) -> list[GraphFile]:
    """The ONNX files of models for a command that needs no sizes, except to export a model.

    Raises:
        InputError: sizes are given, and no model is exported; or there is no ONNX file of a model.
    """
    files = [options.graph_file(model, shape, dim, trust) for model in models]
    if (shape or dim) and all(file.exporter is None for file in files):
        names = " and ".join(map(str, models))
        raise InputError(f"--shape and --dim are for models that are exported to ONNX first; {names} needs no sizes")
    return files


COMMANDS = {"Inspect": {"graph": app}}
"""The command with those below it, under its heading of `bench --help`."""
