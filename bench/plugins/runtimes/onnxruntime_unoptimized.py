"""ONNX Runtime with its graph optimizations off: the way out for models that these break.

An optimization may leave a graph that ONNX Runtime then refuses or cannot run, although the file is valid, as in
microsoft/onnxruntime#32416. A task says by `unoptimized` that its model is such a one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import Arrays, NodeTime, Session, Task
from bench.onnxfile.deferred import onnx, onnxruntime
from bench.plugins.engines.onnxruntime.precision import most_reduced
from bench.plugins.engines.onnxruntime.providers import CPU, open_session
from bench.plugins.engines.onnxruntime.runtime import OrtRuntime, code_of

_LEVEL = "    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL\n"


class OnnxRuntimeUnoptimized(OrtRuntime):
    """Opens ONNX files on the processor; each node runs as the file states it."""

    title = "unoptimized ONNX Runtime"
    requires = ("onnxruntime",)
    generates = False
    options = {}

    def stands_in_for(self, task: Task) -> bool:
        return bool(getattr(task, "unoptimized", False))

    def providers(self) -> tuple[str, ...]:
        return (CPU.name,)

    def approximates(self) -> frozenset[str]:
        return frozenset()

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        off = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return self.session(open_session(artifact, CPU, threads=threads, graph_optimization_level=off), task)

    def profile_nodes(
        self, artifact: Path, *, task: Task, source: str, provider: str, threads: int, feeds: Arrays, num_runs: int
    ) -> Sequence[NodeTime] | None:
        return None

    def inspect(self, artifact: Path, *, provider: str, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        precision = most_reduced(onnx.load(artifact))
        # Where it has no code for half precision it computes in float32, which the file does not show.
        return {"precision": precision if precision in ("float32", "int8") else None}

    def code(self, *, provider: str, threads: int) -> str | None:
        return code_of(threads, _LEVEL)
