"""The part of a model that lies between some of its tensors, as a model of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from bench.api.errors import InputError, suggest
from bench.onnxfile.edits.parts import Cutter, save
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.file.text import value_type
from bench.onnxfile.file.wiring import Wiring


@dataclasses.dataclass(frozen=True, kw_only=True)
class Extract:
    """The part that was written: its inputs and outputs with their types, by name, and its number of nodes."""

    inputs: dict[str, str]
    outputs: dict[str, str]
    num_nodes: int
    num_nodes_before: int


def extract(stored: Stored, target: Path, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> Extract:
    """Write the nodes that lead from some tensors to others, with their weights, as a model.

    Args:
        inputs: names of tensors that become inputs; by default the inputs of the model that are needed.
        outputs: names of tensors that become outputs; by default the outputs of the model.

    Raises:
        InputError: there is no such tensor, the outputs need another input, or do not need one that is given.
    """
    cutter = Cutter(stored)
    wiring = cutter.wiring
    outputs = list(outputs) or list(wiring.outputs)
    _check(wiring, "inputs", inputs)
    _check(wiring, "outputs", outputs)
    if useless := [name for name in outputs if name in (inputs or wiring.inputs)]:
        raise InputError(f"{useless[0]!r} is an input: no node between makes it")
    _, reached = wiring.leading_to(outputs, inputs)
    if inputs and (missing := [name for name in wiring.inputs if name in reached and name not in inputs]):
        raise InputError(
            f"the outputs need more than these inputs, namely {', '.join(map(repr, missing))} of the model; "
            f"name these, too, or tensors that are made of them"
        )
    for name in inputs:
        if name not in reached:
            raise InputError(f"the outputs do not need {name!r}; leave it out, or name an output that lies behind it")
    inputs = list(inputs) or [name for name in wiring.inputs if name in reached]
    model = cutter.part(inputs, outputs)
    save(model, stored, target)
    return Extract(
        inputs={value.name: value_type(value) for value in model.graph.input},
        outputs={value.name: value_type(value) for value in model.graph.output},
        num_nodes=len(model.graph.node),
        num_nodes_before=len(wiring.nodes),
    )


def _check(wiring: Wiring, kind: str, names: Sequence[str]) -> None:
    """Refuse names that are given twice, that no tensor has, or that are names of weights."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"{name!r} is given twice among the {kind}")
        if name in wiring.weights:
            raise InputError(f"{name!r} is a weight; {kind} are tensors that nodes make or that the model is given")
        if name not in wiring.made_by and name not in wiring.inputs:
            raise InputError(f"no tensor {name!r}; {suggest(name, [*wiring.inputs, *wiring.made_by])}")
