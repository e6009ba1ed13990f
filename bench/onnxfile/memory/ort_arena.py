"""The memory that ONNX Runtime takes for activations while it runs a model, as its own profiler reports it.

The profile states the bytes of the session's arena that are in use after each node. The bytes in use before the first
node of the first run hold weights; all bytes above that are taken for activations. The first run learns the sizes; from
the second run with the same sizes on, one block is taken for all activations that could be planned. Unlike our plan,
the figure contains outputs that do not fit into the block, rounding and gaps; and kernels may work in place, so that
the figure may lie below our lower bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api.errors import ArtifactError
from bench.onnxfile.costs.observed import ask_runner, made_feeds
from bench.onnxfile.deferred import np
from bench.onnxfile.file import lazy
from bench.onnxfile.file.normalized import settle
from bench.onnxfile.sessions import profile_runs

_NUM_RUNS = 3
_REQUESTED, _IN_USE, _PEAK = "mem_bytes_requested_in_use", "mem_bytes_in_use", "mem_in_use_peak"
_REQUESTED_DELTA, _IN_USE_DELTA = "mem_requested_in_use_delta", "mem_in_use_delta"


@dataclasses.dataclass(frozen=True, kw_only=True)
class OrtArena:
    """The memory that ONNX Runtime's arena handed out for activations.

    Attributes:
        planned_bytes: most bytes that the last run requested: the planned block, and allocations outside of it.
        taken_bytes: most bytes that were handed out, rounding included. The scratch memory of kernels is included
            unless loading the model took more than running it.
        optimized: whether the graph was optimized first, so that fewer tensors were left.
    """

    planned_bytes: int
    taken_bytes: int
    optimized: bool


def measure_arena(path: Path, feeds: Mapping[str, np.ndarray], *, optimized: bool = True) -> OrtArena:
    """Run a model a few times on the CPU, with one thread, and read from the profile how much the arena handed out.

    Raises:
        ArtifactError: the profile of this version of ONNX Runtime has no account of memory.
    """
    events = profile_runs(path, feeds, num_runs=_NUM_RUNS, optimized=optimized)
    events.sort(key=lambda event: event["ts"])
    nodes = [event for event in events if _REQUESTED in event.get("args", {})]
    if not nodes:
        raise ArtifactError("this version of ONNX Runtime does not tell what its arena gives (1.31 does)")

    def figure(event: dict[str, Any], name: str) -> int:
        return int(event["args"][name])

    last_start = max(event["ts"] for event in events if event["name"] == "model_run")
    first, last = nodes[0], nodes[-1]
    weights = figure(first, _REQUESTED) - figure(first, _REQUESTED_DELTA)
    weights_taken = figure(first, _IN_USE) - figure(first, _IN_USE_DELTA)
    taken = max(figure(event, _IN_USE) for event in nodes)
    if figure(last, _PEAK) > figure(first, _PEAK):  # else the peak may be that of loading
        taken = max(taken, figure(last, _PEAK))
    return OrtArena(
        planned_bytes=max(figure(event, _REQUESTED) for event in nodes if event["ts"] >= last_start) - weights,
        taken_bytes=taken - weights_taken,
        optimized=optimized,
    )


def arenas(
    path: Path, shapes: Mapping[str, Sequence[int]], inputs: Mapping[str, np.ndarray] | None = None
) -> tuple[OrtArena, ...]:
    """Run a model a few times in a child process, and return what its activations took: as it is, then optimized.

    Args:
        shapes: of the inputs that are made up, by name.
        inputs: arrays to feed instead, by name.

    Raises:
        BenchError: the model cannot be run.
    """
    return tuple(OrtArena(**fields) for fields in ask_runner(run, path, shapes, inputs)["arenas"])


def run(*, path: str, shapes: Mapping[str, Sequence[int]], inputs: str | None) -> dict[str, Any]:
    """Run an untrusted model in this process, which is a child that may be lost.

    Returns:
        `arenas`: the fields of an `OrtArena` for the graph as it is, and for the optimized one.
    """
    feeds = made_feeds(settle(lazy.read(Path(path)).model), shapes, inputs)
    measurements = [measure_arena(Path(path), feeds, optimized=optimized) for optimized in (False, True)]
    return {"arenas": [dataclasses.asdict(arena) for arena in measurements]}
