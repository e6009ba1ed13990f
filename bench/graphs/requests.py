"""What a child does with ONNX files from outside: plain arguments in, and what JSON can carry out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from bench.api.arrays import load_arrays
from bench.graphs.costs import observed
from bench.graphs.costs import profile as profiling
from bench.graphs.file import lazy as files
from bench.graphs.file import settled

Result = dict[str, Any]
REQUESTS: dict[str, Callable[..., Result]] = {}


def analyse(*, request: str, arguments: dict[str, Any]) -> Result:
    """Do one of the requests below with ONNX files from outside."""
    return REQUESTS[request](**arguments)


class Given(TypedDict):
    """What a person gave of a model's inputs, as `bench.graphs.profile` takes it; `inputs` is the path of a file."""

    shapes: Mapping[str, Sequence[int]]
    dims: Mapping[str, int]
    observe: bool
    inputs: str | None


def _request(function: Callable[..., Result]) -> Callable[..., Result]:
    REQUESTS[function.__name__] = function
    return function


def _arrays(path: str | None) -> Any:
    return load_arrays(Path(path)) if path else None


@_request
def profile(*, path: str, **given: Unpack[Given]) -> Result:
    """Shapes and costs."""
    return dataclasses.asdict(profiling.profile(path, **{**given, "inputs": _arrays(given["inputs"])}))


@_request
def memory(*, path: str, **given: Unpack[Given]) -> Result:
    """The plan of activation memory."""
    from bench.graphs.memory.activations import activation_memory

    return dataclasses.asdict(activation_memory(path, **{**given, "inputs": _arrays(given["inputs"])}))


@_request
def weights(*, path: str) -> Result:
    """Statistics and sparsity of each weight."""
    from bench.graphs.weights.report import weight_report

    return {"weights": [dataclasses.asdict(one) for one in weight_report(files.read(Path(path)))]}


@_request
def observe(*, path: str, shapes: Mapping[str, Sequence[int]], inputs: str | None) -> Result:
    """Run a model once, and write down the shapes of every execution of its nodes."""
    return observed.run(Path(path), shapes, Path(inputs) if inputs else None)


@_request
def arenas(*, path: str, shapes: Mapping[str, Sequence[int]], inputs: str | None) -> Result:
    """Run a model a few times, and see what memory its activations took."""
    from bench.graphs.memory.ort_arena import measure_arena

    model = settled.settle(files.read(Path(path)).model)
    feeds = observed.made_feeds(model, shapes, Path(inputs) if inputs else None)
    found = [measure_arena(Path(path), feeds, optimized=optimized) for optimized in (False, True)]
    return {"arenas": [dataclasses.asdict(one) for one in found]}


@_request
def diff(*, path: str, other: str) -> Result:
    """What differs between two models, and how often each operator is in them."""
    from bench.graphs.diff.models import diff_models
    from bench.graphs.diff.operators import count_operators

    before, after = files.read(Path(path)), files.read(Path(other))
    operators = [dataclasses.asdict(one) for one in count_operators(before.model, after.model)]
    return {**dataclasses.asdict(diff_models(before, after)), "operators": operators}


@_request
def common_tensors(*, path: str, other: str) -> Result:
    """Which tensor of the second model is which of the first, by name."""
    from bench.graphs.diff.common_tensors import common_tensors as find

    return {"names": find(files.read(Path(path)), files.read(Path(other)))}


@_request
def text(*, path: str) -> Result:
    """The model as text."""
    from bench.graphs.file.text import model_text

    return {"text": model_text(files.read(Path(path)))}


@_request
def picture(*, path: str, **given: Unpack[Given]) -> Result:
    """The graph as SVG."""
    from bench.graphs.picture.svg import draw

    found = profiling.profile(path, **{**given, "inputs": _arrays(given["inputs"])})
    return {"svg": draw(files.read(Path(path)), found), "notes": found.notes}


@_request
def extract(*, path: str, target: str, inputs: Sequence[str], outputs: Sequence[str]) -> Result:
    """Write the part between some tensors as a model."""
    from bench.graphs.edits.extract import extract as between

    return dataclasses.asdict(between(files.read(Path(path)), Path(target), inputs, outputs))


@_request
def split(*, path: str, folder: str, num_parts: int, **given: Unpack[Given]) -> Result:
    """Write a model as parts of equal cost."""
    from bench.graphs.edits import split as splitting

    found = profiling.profile(path, **{**given, "inputs": _arrays(given["inputs"])})
    return dataclasses.asdict(splitting.split(files.read(Path(path)), found, Path(folder), num_parts))


@_request
def fold(
    *, path: str, target: str, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int], free: Sequence[str]
) -> Result:
    """Write a model without its shape arithmetic."""
    from bench.graphs.edits.fold import compute_graph
    from bench.graphs.edits.parts import save
    from bench.graphs.file.digest import all_nodes

    stored = files.read(Path(path))
    folded = compute_graph(stored.model, shapes=shapes, dims=dims, free=free, path=stored.path)
    counts = [sum(1 for _ in all_nodes(model)) for model in (stored.model, folded)]
    save(folded, stored, Path(target))
    return {"num_nodes_before": counts[0], "num_nodes": counts[1]}
