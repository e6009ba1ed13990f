"""The graph that ONNX Runtime makes of a model when it loads it, written to a file or read from there."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.onnxfile.deferred import onnx, onnxruntime
from bench.onnxfile.file.digest import all_graphs, all_nodes


def write_optimized(model: Path | bytes, target: Path, *, level: str = "all", without: Sequence[str] = ()) -> None:
    """Optimize a model for the processor's provider and write it to `target`.

    Tensors that ONNX Runtime stores in the model get names of our own: it does not look whether a name is free, and so
    cannot open its own file where the same optimization stores another tensor (1.31.1).

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
    source = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model, load_external_data=False)
    optimized = onnx.load(target)
    if rename_stored(optimized, _names(source)):
        onnx.save(optimized, target)


def load_optimized(model: Path | bytes, *, level: str = "all", without: Sequence[str] = ()) -> onnx.ModelProto:
    """The model that `write_optimized` writes, with the same arguments."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        write_optimized(model, path, level=level, without=without)
        return onnx.load(path)


def rename_stored(model: onnx.ModelProto, known_names: set[str]) -> bool:
    """Rename the stored tensors whose names are not given, in place; return whether there are any.

    All other values of such a name get the new name, too: branches may make them where another branch stores a tensor.

    Args:
        known_names: names of all values of the model before ONNX Runtime stored tensors in it, its inputs among them.
    """
    taken = _names(model)
    renamed: dict[str, str] = {}
    for tensor in (
        tensor for graph in all_graphs(model) for tensor in graph.initializer if tensor.name not in known_names
    ):
        if tensor.name not in renamed:  # graphs may store different tensors under one name
            others = (f"optimized_{number}_{tensor.name}" for number in itertools.count(len(renamed)))
            renamed[tensor.name] = next(name for name in others if name not in taken)
    for graph in all_graphs(model):
        for value in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
            value.name = renamed.get(value.name, value.name)
    for node in all_nodes(model):
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    return bool(renamed)


def _names(model: onnx.ModelProto) -> set[str]:
    """The names of all values of a model."""
    stored = {value.name for graph in all_graphs(model) for value in (*graph.initializer, *graph.input)}
    return stored | {name for node in all_nodes(model) for name in node.output}
