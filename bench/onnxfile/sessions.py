"""ONNX Runtime on the CPU, to see what a model computes and what memory it takes, never to time it."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.onnxfile.deferred import np, onnx, onnxruntime

_OLDEST_IR_VERSION, _OLDEST_OPSET = 8, 17
"""Versions that every release reads that the package runs with."""
_MOST_TRIED = 64
"""Of the versions after these."""


def cpu_session(
    model: bytes | Path,
    *,
    optimized: bool = False,
    profile_prefix: str | None = None,
    weights_folder: Path | None = None,
) -> onnxruntime.InferenceSession:
    """A session with one thread and without telemetry.

    Args:
        model: the content of an ONNX file, or its path.
        optimized: whether ONNX Runtime may rewrite the graph.
        profile_prefix: where its profiler writes, with the beginning of the file's name; None for no profile.
        weights_folder: where the external data of a `model` in bytes lie.
    """
    onnxruntime.disable_telemetry_events()
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if profile_prefix:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    if weights_folder:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights_folder))
    return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])


def profile_runs(
    model: bytes | Path,
    feeds: Mapping[str, np.ndarray],
    *,
    num_runs: int = 1,
    optimized: bool = False,
    weights_folder: Path | None = None,
) -> list[dict[str, Any]]:
    """Run a model, and return the events that ONNX Runtime's profiler wrote; the rest as for `cpu_session`."""
    with tempfile.TemporaryDirectory() as folder:
        session = cpu_session(
            model, optimized=optimized, profile_prefix=f"{folder}/profile", weights_folder=weights_folder
        )
        for _ in range(num_runs):
            session.run(None, dict(feeds))
        return list(json.loads(Path(session.end_profiling()).read_text()))


def runtime_version() -> str:
    """The version of ONNX Runtime here."""
    return str(onnxruntime.get_version_string())


@functools.cache
def newest_ir_version() -> int:
    """The newest version of the ONNX file format that ONNX Runtime reads, found by opening small files."""
    return _newest(_OLDEST_IR_VERSION, lambda version: {"ir_version": version, "opset": _OLDEST_OPSET})


@functools.cache
def newest_opset() -> int:
    """The newest version of ONNX's own operator set that ONNX Runtime reads, found by opening small files."""
    return _newest(_OLDEST_OPSET, lambda version: {"ir_version": _OLDEST_IR_VERSION, "opset": version})


def _newest(oldest: int, stated: Callable[[int], Mapping[str, int]]) -> int:
    """The last of the versions, one after the other, that ONNX Runtime opens a file of one node with.

    Args:
        oldest: one that all releases read.
        stated: the `ir_version` and the `opset` of the file, by the version that is tried.
    """
    helper = onnx.helper
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in ("x", "y"))
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
    for version in range(oldest + 1, oldest + _MOST_TRIED):
        states = stated(version)
        opsets = [helper.make_opsetid("", states["opset"])]
        try:
            cpu_session(
                helper.make_model(graph, opset_imports=opsets, ir_version=states["ir_version"]).SerializeToString()
            )
        except Exception:
            return version - 1
    return version
