"""Files of the published models hold as many parameters as PyTorch and Keras count, but for biases that are summed."""

from __future__ import annotations

from typing import Any

import pytest

from bench.api.cell import Cell
from support import plugin_child
from support.workers import Workers

pytestmark = [
    pytest.mark.framework,
    pytest.mark.xdist_group("parameters"),
    pytest.mark.timeout(900),
    pytest.mark.slow(seconds=5),
]

SMALLEST = "super_resolution"
COUNTS = {"crnn": 1_492_398, "albert": 1_930_532, "super_resolution": 59_657, "codegen_lm": 5_770_496}
SUMMED = 2 * 4 * 256
"""Biases of the two recurrent layers of crnn: each has two, and some exporters store their sum."""
TABLE = 4096 * 256
"""Elements of the table of codegen_lm, which an exporter writes a second time, transposed."""


FILES = [
    ("crnn/tf/tflite/raw/litert/cpu/b1t1", -SUMMED),
    ("crnn/tf/tflite/tflite_int8-dynamic/litert/cpu/b1t1", -SUMMED),
    ("crnn/tf/tf_openvino/raw/openvino/cpu/b1t1", -SUMMED),
    ("crnn/torch/torch_openvino/raw/openvino/cpu/b1t1", -SUMMED),
    ("crnn/torch/torch_onnx/int8_dynamic/onnxruntime/cpu/b1t1", 0),
    ("crnn/torch/torch_onnx/fp16/onnxruntime/cpu/b1t1", 0),
    ("albert/tf/tflite/raw/litert/cpu/b1t1", 0),
    ("albert/tf/tflite/tflite_int8-dynamic/litert/cpu/b1t1", 0),
    ("albert/tf/tf_openvino/raw/openvino/cpu/b1t1", 0),
    ("albert/torch/torch_onnx/matmul_nbits-float/onnxruntime/cpu/b1t1", 0),
    ("super_resolution/tf/tflite/raw/litert/cpu/b1t1", 0),
    ("super_resolution/tf/tf_openvino/raw/openvino/cpu/b1t1", 0),
    ("codegen_lm/torch/torch_openvino/raw/openvino/cpu/b1t1", 0),
    ("codegen_lm/torch/torch_onnx/raw/onnxruntime/cpu/b1t1", 0),
    ("codegen_lm/tf/tf2onnx/raw/onnxruntime/cpu/b1t1", TABLE),
]


def smallest(*cases: tuple[Any, ...]) -> list[Any]:
    """Cases by their task, as parameters; those of the smallest model are tested each time."""
    return [pytest.param(*case, marks=() if case[0].startswith(SMALLEST) else pytest.mark.thorough) for case in cases]


@pytest.mark.parametrize("source", ["torch", "tf"])
@pytest.mark.parametrize("task", smallest(*((task,) for task in COUNTS)))
def test_frameworks_count_as_many(task: str, source: str, framework_worker: Workers) -> None:
    built = framework_worker.build(plugin_child.own_parameters, task=task, source=source)
    assert built["num_params"] == COUNTS[task]


@pytest.mark.parametrize(("path", "difference"), smallest(*FILES))
def test_files_hold_as_many(path: str, difference: int, framework_worker: Workers) -> None:
    cell = Cell.from_path(path)
    artifact = framework_worker.artifact_of(cell)
    found, repeated = artifact.num_params, artifact.repeated
    if found is None:
        asked = {
            "runtime": str(cell.runtime),
            "provider": str(cell.provider),
            "task": str(cell.task),
            "source": cell.source,
        }
        told = framework_worker.run(plugin_child.parameters, **asked, artifact=str(artifact.path))
        found, repeated = told["num_params"], told["repeated"]
    assert found == COUNTS[str(cell.task)] + difference
    assert (repeated is not None) == (difference > 0)
    if repeated:
        assert repeated.startswith(f"{difference:,} are stored again: ")
