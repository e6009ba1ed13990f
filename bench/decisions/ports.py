"""The inputs and outputs of a deployment, with the sizes that its artifact takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from bench.api import Task, TensorSpec
from bench.api.decoder import IDS
from bench.decisions import open_sizes
from bench.plugins.generating import TOKENS
from bench.records.store import Record


def fixed_sizes(record: Record, task: Task) -> str:
    """The shapes of the inputs that the artifact of a cell takes, where it takes these alone; else empty."""
    if not (sizes := sizes_of(record, task)):
        return ""
    return "; ".join(f"{spec.name} ({_shape(spec)})" for spec in with_sizes(takes(task), sizes))


def sizes_of(record: Record, task: Task) -> dict[str, int]:
    """The sizes of dynamic dimensions but the batch, by name, where the artifact takes these alone."""
    shapes = (record.quality.input_shapes if record.quality else None) or {}
    if task.request is not None or not open_sizes.freezes(record.cell):
        return {}
    pairs = [pair for spec in task.inputs for pair in zip(spec.shape, shapes.get(spec.name, ()), strict=False)]
    batch = {spec.shape[0] for spec in task.inputs if task.batched and spec.shape}
    return {dim: size for dim, size in pairs if isinstance(dim, str) and dim not in batch}


def with_sizes(specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> list[TensorSpec]:
    """Inputs or outputs with sizes in place of the names of their dimensions."""
    return [
        dataclasses.replace(
            spec, shape=tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in spec.shape)
        )
        for spec in specs
    ]


def _shape(spec: TensorSpec) -> str:
    return ", ".join(ascii(size).strip("'") for size in spec.shape)


def lines(task: Task, sizes: Mapping[str, int]) -> str:
    """A line for each input and output."""
    texts = []
    for kind, specs in (("in", with_sizes(takes(task), sizes)), ("out", with_sizes(gives(task), sizes))):
        for spec in specs:
            texts.append(f"    {kind:4}{spec.name!a}: {spec.dtype} ({_shape(spec)})")
    return in_docstring("\n".join(texts))


def in_docstring(text: str) -> str:
    """A text of a model or of stored results, as it stands in a docstring and does not end it."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def takes(task: Task) -> Sequence[TensorSpec]:
    """What a loaded artifact takes: of a decoder, a prompt."""
    if task.request is None:
        return task.inputs
    return (TensorSpec(name=IDS, dtype="int64", shape=(1, task.request.num_prompt)),)


def gives(task: Task) -> Sequence[TensorSpec]:
    """What a loaded artifact gives: of a decoder, the ids of an answer."""
    if task.request is None:
        return task.outputs
    return (TensorSpec(name=TOKENS, dtype="int64", shape=(task.request.num_new,)),)
