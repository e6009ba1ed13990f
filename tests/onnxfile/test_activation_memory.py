"""The memory of activations: the planned size beside the size that ONNX Runtime takes when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.loading import load_module
from bench.onnxfile.memory.activations import activation_memory
from bench.onnxfile.memory.ort_arena import measure_arena

GRAPHS = Path(__file__).parents[2] / "benchmarks" / "transformer_graphs.py"
FLOAT = TensorProto.FLOAT


def chain(folder: Path, length: int, *, last: str = "MatMul") -> Path:
    """Products of an (N, 256) matrix with one of (256, 256), one after the other: 1 KiB a row each."""
    nodes = [helper.make_node("MatMul", [f"x{at}", "w"], [f"x{at + 1}"]) for at in range(length)]
    nodes[-1].op_type = last
    del nodes[-1].input[(2 if last == "MatMul" else 1) :]
    kind = FLOAT if last == "MatMul" else TensorProto.INT64
    values = [
        helper.make_tensor_value_info("x0", FLOAT, ["N", 256]),
        helper.make_tensor_value_info(f"x{length}", kind, None),
    ]
    weight = numpy_helper.from_array(np.full((256, 256), 0.01, np.float32), "w")
    model = helper.make_model(
        helper.make_graph(nodes, "g", values[:1], values[1:], [weight]),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


@pytest.mark.parametrize("rows", [4, 64])
def test_two_buffers_take_turns_and_onnx_runtime_has_one_more_for_the_output(tmp_path: Path, rows: int) -> None:
    found = activation_memory(chain(tmp_path, 6), dims={"N": rows})
    each = rows * 1024

    assert (found.native_bytes, found.lower_bound_bytes, found.arena_bytes) == (6 * each, 2 * each, 2 * each)
    assert [buffer.offset_bytes for buffer in found.buffers] == [0, each] * 3
    assert [(one.first_step, one.last_step) for one in found.buffers] == [(at, min(at + 1, 5)) for at in range(6)]
    assert [one.optimized for one in found.onnxruntime] == [False, True]
    for one in found.onnxruntime:
        assert one.planned_bytes == 3 * each
        assert one.taken_bytes >= one.planned_bytes


def test_given_inputs_are_run_on(tmp_path: Path) -> None:
    x = np.ones((8, 256), np.float32)

    assert measure_arena(chain(tmp_path, 6), {"x0": x}).planned_bytes == 3 * 8 * 1024
    assert activation_memory(tmp_path / "model.onnx", inputs={"x0": x}).onnxruntime[1].planned_bytes == 3 * 8 * 1024


def test_what_depends_on_data_is_in_the_plan_once_it_was_observed(tmp_path: Path) -> None:
    path = chain(tmp_path, 2, last="NonZero")
    x = np.zeros((4, 256), np.float32)
    x[1] = 1  # and so are its products
    seen = activation_memory(path, inputs={"x0": x})
    unseen = activation_memory(path, dims={"N": 4}, observe=False)

    assert (seen.unknown, unseen.unknown) == ((), ("x2",))
    assert seen.arena_bytes == unseen.arena_bytes + 2 * 8 * 256  # the places of a row that is not 0
    assert unseen.onnxruntime == ()


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_transformers_are_planned_within_two_per_cent(tmp_path: Path, name: str) -> None:
    transformers: Any = load_module(GRAPHS)
    config = {"bert": transformers.BERT_BASE, "gpt2": transformers.GPT2, "llama": transformers.LLAMA_LAYER}[name]
    getattr(transformers, name)(config, tmp_path / "model.onnx")
    found = activation_memory(tmp_path / "model.onnx", dims={"batch": 1, "length": 128}, observe=False)

    assert found.unknown == ()
    assert found.lower_bound_bytes <= found.arena_bytes <= 1.02 * found.lower_bound_bytes
    assert found.arena_bytes < found.native_bytes / 5
