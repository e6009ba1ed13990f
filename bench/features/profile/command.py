"""`bench profile`: what a model costs before it is run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bench.api.errors import InputError
from bench.cli import options

if TYPE_CHECKING:
    from bench.pipeline.graph_files import GraphFile
    from bench.report.views import View

_By = Annotated[
    Literal["node", "tensor", "weight", "buffer", "generation"] | None,
    typer.Option(
        help="node: shapes and costs. tensor: all shapes. weight: zeros and statistics. buffer: activation memory. "
        "generation: prefill and decode of a language model. By default generation of a transformers folder that "
        "generates text, and else node.",
        show_default=False,
    ),
]
_Format = Annotated[Literal["table", "json", "csv"], typer.Option(help="Format to print.")]
_Top = Annotated[int, typer.Option(min=0, help="So many nodes or buffers, the most costly; 0 for all, in order.")]
_Prompt = Annotated[
    int | None, typer.Option(min=1, help="By generation: tokens of the prompt; 512 by default.", show_default=False)
]
_New = Annotated[
    int | None,
    typer.Option(min=1, help="By generation: tokens that are generated; 128 by default.", show_default=False),
]
_Batch = Annotated[
    int | None, typer.Option(min=1, help="By generation: sequences at once; 1 by default.", show_default=False)
]
Stored = Annotated[
    Literal["float32", "bfloat16", "float16", "int8", "int4"] | None,
    typer.Option(help="By generation: how weights are stored; by default as config.json says.", show_default=False),
]
_Threads = Annotated[
    int | None, typer.Option(min=1, help="By generation: threads; by default one a core.", show_default=False)
]


def profile(
    model: options.Model,
    *,
    by: _By = None,
    shape: options.Shapes = None,
    dim: options.Dims = None,
    inputs: options.Inputs = None,
    observe: options.Observe = True,
    trust: options.Trust = False,
    format: _Format = "table",
    top: _Top = 20,
    prompt: _Prompt = None,
    new: _New = None,
    batch: _Batch = None,
    stored: Stored = None,
    threads: _Threads = None,
    output: options.Output = None,
) -> None:
    """Shapes, MACs, parameters, bytes, zeros and planned memory of a model, before it is run.

    A model of another format than ONNX is profiled by its plain export to ONNX; a language model by its configuration
    alone.
    """
    from bench.features.profile import decoders

    model = options.here(model, trust)
    of_graphs = {"--shape": shape, "--dim": dim, "--inputs": inputs, "--no-observe": not observe}
    of_generation = {"--prompt": prompt, "--new": new, "--batch": batch, "--stored": stored, "--threads": threads}
    is_chosen = by is None and not any(of_graphs.values()) and decoders.is_decoder(model)
    if by == "generation" or is_chosen:
        _refuse(of_graphs, "about graphs: leave them out of --by generation")
        arguments = {"prompt": prompt or 512, "new": new or 128, "batch": batch or 1, "stored": stored, "trust": trust}
        try:
            view = _generation(model, arguments, threads)
        except InputError as error:
            raise InputError(f"{error}; --by node profiles its graph" if is_chosen else str(error)) from error
    else:
        _refuse(of_generation, "about generation: they need --by generation, of a folder of transformers")
        file = options.graph_file(model, shape, dim, trust)
        most = (top or None) if format == "table" else None
        view = _graph(model.name, file, options.inputs_of(file, inputs, observe), by, most)
    _write(view, format, output)


def _graph(name: str, file: GraphFile, inputs: Mapping[str, Any], by: str | None, most: int | None) -> View:
    """A view of an ONNX file.

    Args:
        name: the model's name.
        file: the file.
        inputs: sizes and inputs, as `options.inputs_of` gives them.
        by: what the view lists; None for nodes.
        most: most nodes or buffers to list, the most costly; None for all, in order.
    """
    from bench.features.profile import render as report
    from bench.onnxfile import requests
    from bench.onnxfile.costs.profile import Profile
    from bench.pipeline.files import ask

    if by == "weight":
        return report.weights(name, ask("profile", requests.weights, file)["weights"])
    if by == "buffer":
        return report.memory({**ask("profile", requests.memory, file, **inputs), "name": name}, most)
    costs = Profile.from_dict({**ask("profile", requests.profile, file, **inputs), "name": name})
    return report.tensors(costs) if by == "tensor" else report.nodes(costs, most)


def _refuse(flags: Mapping[str, object], what: str) -> None:
    """Refuse options that are about another view.

    Raises:
        InputError: some are given; the message names them.
    """
    if names := [name for name, value in flags.items() if value]:
        raise InputError(f"{', '.join(names)}: {what}")


def _generation(model: Path, arguments: Mapping[str, Any], threads: int | None) -> View:
    """The prices of a decoder's passes on this machine."""
    from bench.features.profile import decoder_view as generation
    from bench.features.profile import decoders
    from bench.measure import machine
    from bench.report.terminal import Console

    costs = decoders.costs(model, **arguments)
    with Console().status("measuring this machine's peaks"):
        rates = decoders.rates(costs, threads or machine.num_cores())
    return generation.view(model.name, costs, rates, decoders.bounds(costs, rates))


def _write(view: View, format: str, output: Path | None) -> None:
    """Print a view, or write it to a file, in a format."""
    from bench.report.terminal import Console

    if format == "table" and output is None:
        Console().print(view.as_table())
    else:
        options.write({"json": view.as_json, "csv": view.as_csv, "table": view.as_text}[format](), output)


COMMANDS = {"Inspect": {"profile": profile}}
"""The command, under its heading of `bench --help`."""
