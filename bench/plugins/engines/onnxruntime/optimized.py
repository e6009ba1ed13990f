"""The graph that ONNX Runtime makes of a model when it loads it, written to a file or read from there."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.graphs.deferred import onnx, onnxruntime


def write_optimized(model: Path | bytes, target: Path, *, level: str = "all", without: Sequence[str] = ()) -> None:
    """Optimize a model for the processor's provider and write it to `target`.

    Args:
        model: an ONNX file or its content.
        level: `basic`, `extended` or `all`; the last, which is the default of ONNX Runtime, includes layouts of memory
            that suit only processors like this one.
        without: ONNX Runtime's names of optimizations to leave out.
    """
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}")
    options.optimized_model_filepath = str(target)
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # it warns that level `all` is for this kind of processor only
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"], disabled_optimizers=[*without])


def load_optimized(model: Path | bytes, *, level: str = "all", without: Sequence[str] = ()) -> onnx.ModelProto:
    """The model that `write_optimized` writes, with the same arguments."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        write_optimized(model, path, level=level, without=without)
        return onnx.load(path)
