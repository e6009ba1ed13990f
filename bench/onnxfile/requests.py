"""Requests about a user's ONNX files that a child process answers: plain arguments in, JSON out.

The parent names a function of this module (see `bench.measure.process.Child.request`); the file is parsed in the child
alone. `path` is the absolute path of the file. `given` holds the shapes, sizes and arrays that a person stated for the
model's inputs, as keyword arguments of `bench.onnxfile.profile`; its `inputs` are the path of an .npz file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api.arrays import load_arrays
from bench.api.errors import InputError
from bench.onnxfile.file import lazy

if TYPE_CHECKING:
    from bench.onnxfile.costs.profile import Profile

Result = dict[str, Any]
_Sizes = Mapping[str, Sequence[int]]


def _loaded(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `profile`, with the arrays of the file that `inputs` names."""
    return {**arguments, "inputs": load_arrays(Path(arguments["inputs"])) if arguments["inputs"] else None}


def _profiled(path: str, arguments: Mapping[str, Any]) -> Profile:
    from bench.onnxfile.costs.profile import profile  # by the child alone: every `bench` command imports this module

    return profile(path, **_loaded(arguments))


def profile(*, path: str, **given: Any) -> Result:
    """Shapes and costs: the fields of a `Profile`."""
    return dataclasses.asdict(_profiled(path, given))


def memory(*, path: str, **given: Any) -> Result:
    """The plan of activation memory: the fields of an `ActivationMemory`."""
    from bench.onnxfile.memory.activations import activation_memory

    return dataclasses.asdict(activation_memory(path, **_loaded(given)))


def weights(*, path: str) -> Result:
    """`weights`: the fields of a `WeightReport` for each weight."""
    from bench.onnxfile.weights.report import weight_report

    return {"weights": [dataclasses.asdict(weight) for weight in weight_report(lazy.read(Path(path)))]}


def diff(*, path: str, other: str) -> Result:
    """The fields of a `GraphDiff` of two models, and `operators`: the fields of an `OperatorCount` for each."""
    from bench.onnxfile.diff.models import diff_models
    from bench.onnxfile.diff.operators import count_operators

    before, after = lazy.read(Path(path)), _second(other)
    operators = [dataclasses.asdict(count) for count in count_operators(before.model, after.model)]
    return {**dataclasses.asdict(diff_models(before, after)), "operators": operators}


def common_tensors(*, path: str, other: str) -> Result:
    """`names`: the tensors of the second model that the first one has too, by name, with their names there."""
    from bench.onnxfile.diff.common_tensors import common_tensors as find

    return {"names": find(lazy.read(Path(path)), _second(other))}


def _second(path: str) -> lazy.Stored:
    try:
        return lazy.read(Path(path))
    except InputError as error:
        raise InputError(f"the other file, {path}: {error}") from error


def text(*, path: str) -> Result:
    """`text`: the model in onnx's own text form."""
    from bench.onnxfile.file.text import model_text

    return {"text": model_text(lazy.read(Path(path)))}


def picture(*, path: str, **given: Any) -> Result:
    """`svg`: the graph as SVG; `notes`: the notes of its profile."""
    from bench.onnxfile.picture.svg import draw

    model_profile = _profiled(path, given)
    return {"svg": draw(lazy.read(Path(path)), model_profile), "notes": model_profile.notes}


def extract(*, path: str, target: str, inputs: Sequence[str], outputs: Sequence[str]) -> Result:
    """Write the part of a model between some tensors to `target`; returns the fields of an `Extract`."""
    from bench.onnxfile.edits.extract import extract as between

    return dataclasses.asdict(between(lazy.read(Path(path)), Path(target), inputs, outputs))


def split(*, path: str, folder: str, num_parts: int, **given: Any) -> Result:
    """Write a model as parts of equal cost into `folder`.

    Returns:
        The fields of a `Split`, and `notes`: the notes of the model's profile.
    """
    from bench.onnxfile.edits.split import split as in_parts

    model_profile = _profiled(path, given)
    parts = in_parts(lazy.read(Path(path)), model_profile, Path(folder), num_parts)
    return {**dataclasses.asdict(parts), "notes": model_profile.notes}


def fold(*, path: str, target: str, shapes: _Sizes, dims: Mapping[str, int], free: Sequence[str]) -> Result:
    """Write a model without its shape arithmetic to `target`.

    Returns:
        `num_nodes_before` and `num_nodes`, those of subgraphs included, and `notes`: lines about guessed sizes.
    """
    from bench.onnxfile.edits.fold import compute_graph
    from bench.onnxfile.edits.parts import save
    from bench.onnxfile.file.digest import all_nodes

    stored = lazy.read(Path(path))
    num_before = sum(1 for _ in all_nodes(stored.model))
    folded = compute_graph(stored.model, shapes=shapes, dims=dims, free=free, path=stored.path)
    num_nodes = sum(1 for _ in all_nodes(folded.model))
    save(folded.model, stored, Path(target))
    return {"num_nodes_before": num_before, "num_nodes": num_nodes, "notes": folded.notes}
