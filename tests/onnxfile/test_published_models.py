"""Profiles of whole models against counts made by hand and against published ones.

Published figures: https://github.com/ThanatosShinji/onnx-tool, README, "Results of ONNX Model Zoo and SOTA models".
Its MACs include one for each element that a bias is added to or an activation compares, 32 for an exponential, the
windows of pools, and so on; ours are the products alone, and the rest is in `other_ops`. Its parameters include all
is stored, such as the statistics of batch normalizations and the causal masks of GPT-2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from bench.api.loading import load_module
from bench.onnxfile.costs.profile import Profile, profile
from bench.onnxfile.weights.parameter_counts import of_onnx

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
GRAPHS = Path(__file__).parents[2] / "benchmarks" / "transformer_graphs.py"


@pytest.fixture(scope="module")
def transformers() -> Any:
    return load_module(GRAPHS)


def macs_of(found: Profile, op_type: str) -> int:
    return sum(node.macs for node in found.nodes if node.op_type == op_type)


@pytest.mark.parametrize(
    ("name", "params", "published_params", "convolutions", "published_macs"),
    [
        ("squeezenet", 1_235_496, 1.235e6, 349_151_936, 351e6),  # with a bias: 351.7 million
        ("bvlc_alexnet", 60_965_224, 60.965e6, 595_938_432, None),
        ("resnet50", 25_557_032, 25.6e6, 4_087_136_256, None),
    ],
)
def test_models_of_the_onnx_package(
    name: str, params: int, published_params: float, convolutions: int, published_macs: float | None
) -> None:
    found = profile(LIGHT / f"light_{name}.onnx")

    assert found.num_params == found.num_unique_params == params
    assert params == pytest.approx(published_params, rel=0.01)
    assert macs_of(found, "Conv") == convolutions
    if published_macs:
        assert convolutions == pytest.approx(published_macs, rel=0.01)
    assert found.is_complete
    assert found.macs == sum(macs_of(found, op_type) for op_type in ("Conv", "Gemm", "MatMul"))


def test_convolutions_of_alexnet_and_its_classifier_by_hand() -> None:
    """As published 665 million: 655 of products, and 8 of what onnx-tool counts besides, at its own weights."""
    found = profile(LIGHT / "light_bvlc_alexnet.onnx")
    convolutions = [  # output channels, output side, input channels of a group, window
        (96, 54, 3, 11), (256, 26, 48, 5), (384, 12, 256, 3), (384, 12, 192, 3), (256, 12, 192, 3)
    ]  # fmt: skip
    expected = sum(channels * side**2 * inner * window**2 for channels, side, inner, window in convolutions)

    assert macs_of(found, "Conv") == expected
    assert macs_of(found, "Gemm") == 9216 * 4096 + 4096 * 4096 + 4096 * 1000
    assert found.macs + found.other_ops == pytest.approx(665e6, rel=0.01)


def test_generated_weights_are_as_good_as_stored_ones(tmp_path: Path) -> None:
    source = LIGHT / "light_squeezenet.onnx"
    stored = tmp_path / "stored.onnx"
    onnx.save(with_weights(onnx.load(source)), stored)
    light, full = profile(source), profile(stored)

    assert full.num_params == light.num_params == of_onnx(stored).num_params
    assert full.macs == light.macs
    assert full.weight_bytes == pytest.approx(light.weight_bytes, rel=0.001)  # without the shapes of what is made
    assert any("ConstantOfShape" in note for note in light.notes)
    assert full.notes == ()


def with_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Random weights in the place of those that ConstantOfShape nodes make."""
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    generator = np.random.default_rng(0)
    kept = [
        onnx.NodeProto.FromString(node.SerializeToString())
        for node in model.graph.node
        if node.op_type != "ConstantOfShape"
    ]
    made = {node.output[0]: shapes[node.input[0]] for node in model.graph.node if node.op_type == "ConstantOfShape"}
    model.graph.initializer.extend(
        numpy_helper.from_array(generator.standard_normal(shape, np.float32), name) for name, shape in made.items()
    )
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def transformer_macs(config: Any, length: int, *, gated: bool, head: bool) -> int:
    """Projections, feed-forward layers, scores and their use, and the head; nothing else has products to sum."""
    linear = 4 * config.hidden**2 + (3 if gated else 2) * config.hidden * config.inner
    attention = 2 * length**2 * config.hidden
    return config.layers * (length * linear + attention) + (config.vocabulary * config.hidden * length if head else 0)


def transformer_params(config: Any, name: str) -> int:
    hidden, inner = config.hidden, config.inner
    embeddings = config.vocabulary * hidden
    if name == "llama":
        return 2 * embeddings + config.layers * (4 * hidden**2 + 3 * hidden * inner + 2 * hidden) + hidden
    layer = 4 * hidden**2 + 4 * hidden + 2 * hidden * inner + inner + hidden + 4 * hidden
    if name == "gpt2":
        return embeddings + config.positions * hidden + config.layers * layer + 2 * hidden
    return embeddings + (config.positions + 2) * hidden + 2 * hidden + config.layers * layer


@pytest.mark.parametrize(
    ("name", "config", "length"), [("bert", "BERT_BASE", 256), ("gpt2", "GPT2", 128), ("llama", "LLAMA_LAYER", 512)]
)
def test_transformers_of_their_usual_sizes(
    transformers: Any, tmp_path: Path, name: str, config: str, length: int
) -> None:
    """Their weights lie in a file with holes: if they were loaded, this would take gigabytes.

    Published for a "GPT-J layer": 464 million parameters and 173,398 million MACs. Both are those of this LLaMA layer
    with 512 tokens; and those of its "LLaMA layer" fit GPT-J. Published for GPT-2: 137.02 million parameters, which are
    these and twelve masks of 1024 by 1024.
    """
    sizes = getattr(transformers, config)
    path = tmp_path / f"{name}.onnx"
    getattr(transformers, name)(sizes, path)
    found = profile(path, dims={"batch": 1, "length": length})
    expected_params = transformer_params(sizes, name)

    assert found.macs == transformer_macs(sizes, length, gated=name == "llama", head=name != "bert")
    assert found.num_params == expected_params  # the frequencies of the rotation are a constant
    assert found.notes == ()
    published = {"bert": (109e6, None), "gpt2": (137.02e6 - 12 * 1024**2, None), "llama": (464e6, 173_398e6)}
    published_params, published_macs = published[name]
    assert found.num_params == pytest.approx(published_params, rel=0.01)
    if published_macs:
        assert found.macs == pytest.approx(published_macs, rel=0.01)


def test_work_follows_batch_and_length(transformers: Any, tmp_path: Path) -> None:
    config = transformers.Config(vocabulary=20, positions=64, hidden=16, inner=40, heads=2, layers=3)
    transformers.bert(config, tmp_path / "bert.onnx", random=True)
    found = {
        (batch, length): profile(tmp_path / "bert.onnx", dims={"batch": batch, "length": length}).macs
        for batch, length in ((1, 8), (4, 8), (1, 32))
    }

    assert found[4, 8] == 4 * found[1, 8]
    assert found[1, 32] == transformer_macs(config, 32, gated=False, head=False)


@pytest.mark.framework("torch")
@pytest.mark.parametrize("keep_copies", [False, True])
def test_albert_base_has_11_7_million_unique_parameters(tmp_path: Path, keep_copies: bool) -> None:
    torch = pytest.importorskip("torch")
    from bench.plugins import catalog

    task = catalog.task("albert_base")
    network = task.build("torch", task.weights_path)
    length = task.inputs[0].shape[1] if isinstance(task.inputs[0].shape[1], int) else 16
    example = tuple(torch.ones((2, length), dtype=torch.int64) for _ in task.inputs)
    path = tmp_path / "albert.onnx"
    torch.onnx.export(network, example, path, dynamo=False, opset_version=17, keep_initializers_as_inputs=keep_copies)
    found = profile(path)

    assert found.num_unique_params == pytest.approx(11.7e6, rel=0.01)
    assert (found.num_params > 80e6) is keep_copies
