"""`bench profile`: what an ONNX file costs before it is run."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from bench.cli import options


def profile(
    model: options.AnyModel,
    *,
    by: Annotated[
        Literal["node", "tensor", "weight", "buffer"],
        typer.Option(
            help="node: shapes and costs. tensor: all shapes. weight: zeros and statistics. buffer: activation memory."
        ),
    ] = "node",
    shape: options.Shapes = None,
    dim: options.Dims = None,
    inputs: options.Inputs = None,
    observe: options.Observe = True,
    trust: options.Trust = False,
    format: Annotated[Literal["table", "json", "csv"], typer.Option(help="Format to print.")] = "table",
    top: Annotated[
        int, typer.Option(min=0, help="So many nodes or buffers, the most costly; 0 for all, in order.")
    ] = 20,
    output: options.Output = None,
) -> None:
    """Shapes, MACs, parameters, bytes, zeros and planned memory of a model, before it is run.

    A model of another format than ONNX is profiled by its plain export.
    """
    from rich.console import Console

    from bench.graphs import requests
    from bench.graphs.costs.profile import Profile
    from bench.measure.limits import Limits
    from bench.pipeline import graph_files
    from bench.pipeline.files import ask
    from bench.report import profile as report
    from bench.tasks import adopt

    about = adopt.Options(dims=tuple(dim or ()), shapes=tuple(shape or ()), trust=trust)
    file = graph_files.of_model(model, about, Limits.of(step_s=None, memory_bytes=None))
    options.say_notes(file.notes)
    given = options.inputs_of(shape, dim, inputs, observe)
    given["shapes"] = {**file.shapes, **given["shapes"]}
    most = top if format == "table" else 0
    if by == "weight":
        view = report.weights(model.name, ask("profile", requests.weights, file.path)["weights"])
    elif by == "buffer":
        view = report.memory(ask("profile", requests.memory, file.path, **given), most or None)
    else:
        found = Profile.from_dict(ask("profile", requests.profile, file.path, **given))
        view = report.tensors(found) if by == "tensor" else report.nodes(found, most or None)
    if format == "table" and output is None:
        Console().print(view.as_table())
    else:
        options.write({"json": view.as_json, "csv": view.as_csv, "table": view.as_text}[format](), output)
