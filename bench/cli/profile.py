"""`bench profile`: what a model costs before it is run."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from bench.cli import options


def profile(
    model: options.Model,
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

    A model of another format than ONNX is profiled by its plain export to ONNX.
    """
    from bench.graphs import requests
    from bench.graphs.costs.profile import Profile
    from bench.pipeline.files import ask
    from bench.report import profile as report
    from bench.report.terminal import Console

    file = options.graph_file(model, shape, dim, trust)
    given = options.inputs_of(file, inputs, observe)
    most = top if format == "table" else 0
    if by == "weight":
        view = report.weights(model.name, ask("profile", requests.weights, file)["weights"])
    elif by == "buffer":
        view = report.memory({**ask("profile", requests.memory, file, **given), "name": model.name}, most or None)
    else:
        found = Profile.from_dict({**ask("profile", requests.profile, file, **given), "name": model.name})
        view = report.tensors(found) if by == "tensor" else report.nodes(found, most or None)
    if format == "table" and output is None:
        Console().print(view.as_table())
    else:
        options.write({"json": view.as_json, "csv": view.as_csv, "table": view.as_text}[format](), output)
