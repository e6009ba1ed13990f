"""ONNX Runtime on the CPU, to see what a model computes and what memory it takes, never to time it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.graphs.deferred import np, onnxruntime


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
