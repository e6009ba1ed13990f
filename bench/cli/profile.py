"""`bench profile`: what an ONNX file costs before it is run."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench.api.errors import ChildError, InputError

if TYPE_CHECKING:
    from bench.report.views import View

GIVEN_SHAPE = re.compile(r"(?P<name>.+)=(?P<sizes>\d+(x\d+)*|)")
GIVEN_DIM = re.compile(r"(?P<name>.+)=(?P<size>\d+)")


class Format(enum.StrEnum):
    """Formats of `bench profile`."""

    table = "table"
    json = "json"
    csv = "csv"


class By(enum.StrEnum):
    """What there is a row for."""

    node = "node"
    tensor = "tensor"
    weight = "weight"
    buffer = "buffer"


Model = Annotated[Path, typer.Argument(help="An .onnx file.", show_default=False)]
Shapes = Annotated[list[str] | None, typer.Option("--shape", help="Shape of an input, as image=1x3x224x224.")]
Dims = Annotated[list[str] | None, typer.Option("--dim", help="Size of a dynamic dimension, as N=4.")]
Inputs = Annotated[
    Path | None, typer.Option(help="Arrays to run on where shapes depend on data: an .npz file, by input name.")
]
Observe = Annotated[bool, typer.Option(help="Run the model once where shapes depend on data.")]


def profile(
    model: Model,
    *,
    by: Annotated[
        By,
        typer.Option(
            help="node: shapes and costs. tensor: all shapes. weight: zeros and statistics. buffer: activation memory."
        ),
    ] = By.node,
    shape: Shapes = None,
    dim: Dims = None,
    inputs: Inputs = None,
    observe: Observe = True,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.table,
    top: Annotated[
        int, typer.Option(min=0, help="So many nodes or buffers, the most costly; 0 for all, in order.")
    ] = 20,
    output: Annotated[Path | None, typer.Option(help="File to write instead of printing.")] = None,
) -> None:
    """Shapes, MACs, parameters, bytes, zeros and planned memory of an ONNX file, before it is run."""
    from rich.console import Console

    from bench.records.store import write_atomically

    view = _view(by, model, given(shape, dim, inputs, observe), top if format is Format.table else 0)
    if format is Format.table and output is None:
        Console().print(view.as_table())
        return
    text = {Format.json: view.as_json, Format.csv: view.as_csv, Format.table: view.as_text}[format]()
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(output, text)


def _view(by: By, model: Path, arguments: dict[str, Any], top: int) -> View:
    from bench.graphs import requests
    from bench.graphs.costs.profile import Profile
    from bench.report import profile as profile_table

    if by is By.weight:
        return profile_table.weights(model.name, ask("profile", requests.weights, model)["weights"])
    if by is By.buffer:
        return profile_table.memory(ask("profile", requests.memory, model, **arguments), top or None)
    found = Profile.from_dict(ask("profile", requests.profile, model, **arguments))
    return profile_table.tensors(found) if by is By.tensor else profile_table.nodes(found, top or None)


def ask(verb: str, request: Callable[..., dict[str, Any]], model: Path, **arguments: Any) -> dict[str, Any]:
    """Have a child read a file: it is not trusted, and nothing of it is parsed here.

    Args:
        verb: what is done to the model, for the message.
        request: a function of `bench.graphs.requests`.

    Raises:
        InputError: there is no such file, or it cannot be done.
    """
    from bench.measure.limits import Limits
    from bench.measure.process import ask_once

    limits = Limits.of(step_s=None, memory_bytes=None)
    try:
        return ask_once(
            request,
            timeout_s=limits.prepare_s,
            memory_bytes=limits.memory_bytes,
            path=readable(model),
            **arguments,
        )
    except ChildError as error:
        raise InputError(f"cannot {verb} {model}: {error.reason}") from error


def readable(path: Path) -> str:
    """The whole path of a file, for a child.

    Raises:
        InputError: there is none.
    """
    if not path.is_file():
        raise InputError(f"no such file: {path}" if not path.exists() else f"{path} is a folder, not a file")
    return str(path.absolute())


def given(shape: list[str] | None, dim: list[str] | None, inputs: Path | None, observe: bool) -> dict[str, Any]:
    """What was given of a model's inputs, for a child.

    Raises:
        InputError: a text is not what it should be, or there is no such file.
    """
    return {
        "shapes": shapes_from(shape),
        "dims": dims_from(dim),
        "observe": observe,
        "inputs": readable(inputs) if inputs else None,
    }


def shapes_from(texts: list[str] | None) -> dict[str, list[int]]:
    """Shapes by name, from texts such as `image=1x3x224x224`."""
    shapes = {}
    for text in texts or []:
        found = GIVEN_SHAPE.fullmatch(text)
        if found is None:
            raise InputError(f"not a shape of an input: {text!r}; write image=1x3x224x224")
        shapes[found["name"]] = [int(size) for size in found["sizes"].split("x") if size]
    return shapes


def dims_from(texts: list[str] | None) -> dict[str, int]:
    """Sizes by name, from texts such as `N=4`."""
    dims = {}
    for text in texts or []:
        found = GIVEN_DIM.fullmatch(text)
        if found is None:
            raise InputError(f"not a size of a dimension: {text!r}; write N=4")
        dims[found["name"]] = int(found["size"])
    return dims
