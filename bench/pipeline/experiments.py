"""Experiments that others published, to be measured again: `bench run --sweep seed`, then `bench show --sweep seed`.

Each experiment answers one question with a few cells. Sources: the table of a CRNN in TensorFlow, PyTorch and ONNX
Runtime (a readme on ONNX optimization tools); PyTorch against ONNX Runtime from a file and from bytes (a study of a
super-resolution model); the size of an exported ALBERT (a readme on ONNX model size compression).
"""

from __future__ import annotations

import dataclasses

from bench.api.cell import Cell


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """One published table.

    Attributes:
        title: title of the table.
        cells: cell paths, in the table's order.
        columns: keys of a row; none for a table of operators before and after, of two cells.
    """

    title: str
    cells: tuple[str, ...]
    columns: tuple[str, ...] = ()


def _cells(task: str, *parts: str) -> tuple[str, ...]:
    return tuple(f"{task}/{part}/cpu/b1t1" for part in parts)


EXPERIMENTS = (
    Experiment(
        title="A CRNN in two frameworks, exported, optimized and simplified",
        cells=_cells(
            "crnn",
            "tf/native/raw/tensorflow",
            "torch/native/raw/pytorch",
            "tf/tf2onnx/raw/onnxruntime",
            "tf/tf2onnx/onnxoptimizer/onnxruntime",
            "tf/tf2onnx/onnxsim/onnxruntime",
            "tf/tf2onnx/onnxoptimizer+onnxsim/onnxruntime",
            "torch/torch_onnx/raw/onnxruntime",
            "torch/torch_onnx/onnxoptimizer/onnxruntime",
            "torch/torch_onnx/onnxsim/onnxruntime",
            "torch/torch_onnx/onnxoptimizer+onnxsim/onnxruntime",
        ),
        columns=("cell", "num_params", "latency_p50_ns", "ratio", "verdict", "loss", "metric", "size_bytes"),
    ),
    Experiment(
        title="Super-resolution in PyTorch, in ONNX Runtime from a file, and from its serialized bytes",
        cells=_cells(
            "super_resolution",
            "torch/native/raw/pytorch",
            "torch/torch_onnx/raw/onnxruntime",
            "torch/torch_onnx/raw/onnxruntime_bytes",
        ),
        columns=("cell", "latency_p50_ns", "ratio", "verdict", "load_ns", "model_rss_bytes", "size_bytes", "metric"),
    ),
    Experiment(
        title="The size of ALBERT-base: weights, exported with shared layers written out, and made small again",
        cells=_cells(
            "albert_base",
            "torch/native/raw/pytorch",
            "torch/torch_onnx/raw/onnxruntime",
            "torch/torch_onnx_legacy/raw/onnxruntime",
            "torch/torch_onnx_untied/raw/onnxruntime",
            "torch/torch_onnx_untied/dedup/onnxruntime",
            "torch/torch_onnx_untied/dedup+int8_dynamic/onnxruntime",
            "torch/torch_onnx_untied/dedup+ort_transformers/onnxruntime",
        ),
        columns=("cell", "size_bytes", "num_params", "max_abs_error", "fidelity", "ratio", "verdict"),
    ),
    *(
        Experiment(
            title=f"Operators before and after the simplifier: {task}, {export}",
            cells=_cells(task, f"{export}/raw/onnxruntime", f"{export}/onnxsim/onnxruntime"),
        )
        for task, export in (
            ("crnn", "tf/tf2onnx"),
            ("crnn", "torch/torch_onnx"),
            ("albert", "torch/torch_onnx_legacy"),
        )
    ),
)


def cells() -> list[Cell]:
    """The cells of all experiments, each once."""
    return [
        Cell.from_path(path) for path in dict.fromkeys(path for experiment in EXPERIMENTS for path in experiment.cells)
    ]
