"""The memory that a model's activations take: the lower bound, a plan, and the measured use of ONNX Runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.api.errors import BenchError
from bench.onnxfile.costs import profile
from bench.onnxfile.deferred import np
from bench.onnxfile.file import lazy as files
from bench.onnxfile.file import normalized
from bench.onnxfile.memory import ort_arena
from bench.onnxfile.memory.lifetimes import activation_lifetimes
from bench.onnxfile.memory.ort_arena import OrtArena
from bench.onnxfile.memory.plan import plan_memory


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlacedBuffer:
    """An activation in the planned arena, in use from node `first_step` to node `last_step`, both included."""

    name: str
    offset_bytes: int
    size_bytes: int
    first_step: int
    last_step: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActivationMemory:
    """The memory that the activations of a model take.

    Attributes:
        inputs: shapes of the inputs that all figures are for, by name.
        arena_bytes: size of the planned arena, in which buffers in use at the same time never overlap.
        lower_bound_bytes: the largest sum of sizes in use at one node; no plan for this order of nodes is smaller.
        native_bytes: sum of the sizes of all activations, the need without any reuse.
        buffers: in the order in which they come into use.
        unknown: names of activations whose size is not known; they are not in the plan.
        onnxruntime: measured for the graph as it is and for the optimized graph; empty if the model was not run.
        notes: sentences about the limits of these figures.
    """

    name: str
    inputs: Mapping[str, tuple[int, ...]]
    arena_bytes: int
    lower_bound_bytes: int
    native_bytes: int
    buffers: tuple[PlacedBuffer, ...]
    unknown: tuple[str, ...]
    onnxruntime: tuple[OrtArena, ...]
    notes: tuple[str, ...]


def activation_memory(
    path: Path | str,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    observe: bool = True,
    inputs: Mapping[str, np.ndarray] | None = None,
) -> ActivationMemory:
    """Plan the memory of an ONNX file's activations, and measure how much ONNX Runtime takes for them.

    Args:
        observe: whether to run the model in a child process. The other arguments are those of `bench.onnxfile.profile`.

    Raises:
        InputError: as `bench.onnxfile.profile`.
    """
    path = Path(path)
    model_profile = profile.profile(path, shapes=shapes, dims=dims, observe=observe, inputs=inputs)
    graph = normalized.settle(files.read(path).model).graph
    lifetimes = activation_lifetimes(graph, {name: info.bytes for name, info in model_profile.tensors.items()})
    plan = plan_memory(lifetimes.buffers)
    notes = list(model_profile.notes)
    arenas: tuple[OrtArena, ...] = ()
    if observe:
        try:
            arenas = ort_arena.arenas(path, model_profile.inputs, inputs)
        except BenchError as error:
            notes.append(f"ONNX Runtime's memory is not known: {error}")
    placed = [
        PlacedBuffer(offset_bytes=offset, **dataclasses.asdict(buffer))
        for buffer, offset in zip(plan.buffers, plan.offsets_bytes, strict=True)
    ]
    return ActivationMemory(
        name=path.name,
        inputs=model_profile.inputs,
        arena_bytes=plan.arena_bytes,
        lower_bound_bytes=plan.lower_bound_bytes,
        native_bytes=plan.native_bytes,
        buffers=tuple(sorted(placed, key=lambda place: (place.first_step, place.offset_bytes))),
        unknown=lifetimes.unknown,
        onnxruntime=arenas,
        notes=tuple(notes),
    )
