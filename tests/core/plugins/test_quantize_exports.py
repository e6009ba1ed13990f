"""Weight-only files: they load, and are as small as bits, scales, zero points and the rest add up to."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import TensorSpec
from bench.api.cell import Cell
from bench.measure.limits import Limits
from bench.onnxfile.weights.affine import SCHEMES, Scheme, scheme
from bench.onnxfile.weights.quantizable import find_weights
from bench.pipeline import prepare
from bench.plugins import catalog, steps
from support import small_models as small

EXPORTS = ["super_resolution/torch/torch_onnx", pytest.param("crnn/torch/torch_onnx", marks=pytest.mark.thorough)]
"""Of the reference models the smallest, and the one with most kinds of weights: convolutions, LSTMs and products."""
BITS = {onnx.TensorProto.BOOL: 8, onnx.TensorProto.INT64: 64, onnx.TensorProto.INT32: 32, onnx.TensorProto.FLOAT: 32}
BITS |= {onnx.TensorProto.INT4: 4, onnx.TensorProto.UINT4: 4, onnx.TensorProto.INT8: 8, onnx.TensorProto.UINT8: 8}

TABLE, TIED, CONV, BIAS = (1500, 128), (128, 128), (64, 32, 3, 3), (64,)
NUM_SCALES = {
    "tensor": 3,
    "channel": 1500 + 128 + 64,
    "block": 1500 * 4 + 4 * 128 + 64 * 9,  # 128 weights are 4 blocks of 32, a convolution's 32 * 3 * 3 are 9
}


class TextAndImageTask(small.SmallTask):
    inputs = (
        TensorSpec(name="tokens", dtype="int64", shape=("batch", 4)),
        TensorSpec(name="image", dtype="float32", shape=("batch", 32, 8, 8)),
    )
    outputs = (
        TensorSpec(name="text", dtype="float32", shape=("batch", 4, 128)),
        TensorSpec(name="picture", dtype="float32", shape=("batch", 64, 6, 6)),
    )

    def samples(self, split: str) -> object:
        samples = super().samples(split)
        image = np.repeat(samples.inputs["image"][:, :1], 32, axis=1)
        return type(samples)(inputs={"tokens": samples.inputs["tokens"], "image": image}, targets=None)


@pytest.fixture(scope="module")
def text_and_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An embedding, a matrix that two products share, and a convolution with a bias."""
    task = small.make_task(TextAndImageTask)
    kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
    inputs, outputs = (
        [helper.make_tensor_value_info(spec.name, kinds[spec.dtype], spec.shape) for spec in specs]
        for specs in (task.inputs, task.outputs)
    )
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["h0"]),
        helper.make_node("MatMul", ["h0", "tied"], ["h1"]),
        helper.make_node("MatMul", ["h1", "tied"], ["text"]),
        helper.make_node("Conv", ["image", "conv", "bias"], ["picture"]),
    ]
    shapes = {"table": TABLE, "tied": TIED, "conv": CONV, "bias": BIAS}
    stored = [numpy_helper.from_array(small.floats(*shape), name) for name, shape in shapes.items()]
    path = tmp_path_factory.mktemp("source") / "source.onnx"
    onnx.save(small.make_valid(helper.make_graph(nodes, "graph", inputs, outputs, stored)), path)
    return path


@pytest.mark.parametrize("chosen", SCHEMES, ids=lambda item: item.name)
def test_file_is_as_small_as_it_should_be(chosen: Scheme, text_and_image: Path, tmp_path: Path) -> None:
    target, task = tmp_path / "model.onnx", small.make_task(TextAndImageTask)
    info = steps.transform(catalog.variant(f"weight_only-{chosen.name}"), task, text_and_image, target)
    num_weights = math.prod(TABLE) + math.prod(TIED) + math.prod(CONV)
    scale_bytes = 4 if chosen.symmetric else 4 + chosen.bits / 8
    expected = num_weights * chosen.bits / 8 + NUM_SCALES[chosen.per] * scale_bytes + 4 * math.prod(BIAS)
    assert target.stat().st_size == pytest.approx(expected, rel=0.02)
    assert info["expected_bytes"] == pytest.approx(expected, rel=0.02)


@pytest.fixture(scope="module", params=EXPORTS)
def export(request: pytest.FixtureRequest) -> tuple[str, Path]:
    """A task and its exported model."""
    cell = Cell.from_path(f"{request.param}/raw/onnxruntime/cpu/b1t1")
    if (reason := catalog.exporter(cell.exporter).skip()) is not None:
        pytest.skip(reason)
    return cell.task, prepare.artifact_of(cell, Limits.of(step_s=None, memory_bytes=None)).path


@pytest.mark.framework("onnx")
@pytest.mark.parametrize("name", ["int8-sym-channel", "int4-asym-block"])
def test_every_weight_of_a_real_export_is_quantized(name: str, export: tuple[str, Path], tmp_path: Path) -> None:
    import onnxruntime

    target, chosen, (task, source) = tmp_path / "model.onnx", scheme(name), export
    info = steps.transform(catalog.variant(f"weight_only-{name}"), catalog.task(task), source, target)
    onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])

    model = onnx.load(target)
    assert not find_weights(model)
    assert info["num_left_in_subgraphs"] == 0
    # From the quantized file alone: what its tensors take, and little more.
    tensor_bytes = sum(math.prod(tensor.dims) * BITS[tensor.data_type] / 8 for tensor in model.graph.initializer)
    assert tensor_bytes < target.stat().st_size < 1.05 * tensor_bytes
    assert tensor_bytes < source.stat().st_size * (chosen.bits + 2) / 32
