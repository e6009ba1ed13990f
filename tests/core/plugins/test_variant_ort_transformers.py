"""ONNX Runtime's transformer optimizer: heads and hidden size are found, or the step is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper

from bench.api.errors import ArtifactError, RefusedError
from bench.onnxfile.shapes.attention import Attention, find_attention
from bench.plugins import catalog
from support import deferred
from support import variant_graphs as graphs

pytest.importorskip("onnxruntime")
deferred.importorskip("sympy")

node = helper.make_node


def attribute(model: ModelProto, operator: str, name: str) -> list[int]:
    return [
        helper.get_attribute_value(found)
        for item in model.graph.node
        if item.op_type == operator
        for found in item.attribute
        if found.name == name
    ]


def find(model: ModelProto, **dims: int) -> Attention:
    return find_attention(model, graphs.task_of(model, **dims))


@pytest.mark.parametrize("opset", [17, 20, 23])
@pytest.mark.parametrize("heads", [1, 2, 4, 8])
@pytest.mark.parametrize("computed_shapes", [False, True])
def test_heads_and_hidden_size_are_read_off_the_graph(opset: int, heads: int, computed_shapes: bool) -> None:
    model = graphs.encoder(opset=opset, heads=heads, computed_shapes=computed_shapes)
    # As many tokens as heads, or as the heads are wide, confuse nothing.
    for tokens in (heads, graphs.HIDDEN // heads, 7):
        found = find(model, tokens=tokens)
        assert found == Attention(num_heads=heads, hidden_size=graphs.HIDDEN, num_layers=1)


@pytest.mark.parametrize("computed_shapes", [False, True])
@pytest.mark.parametrize("heads", [2, 4])
def test_attention_is_fused_with_the_heads_that_were_found(heads: int, computed_shapes: bool, tmp_path: Path) -> None:
    source = graphs.encoder(heads=heads, computed_shapes=computed_shapes)
    made, info = graphs.apply("ort_transformers", source, tmp_path)
    assert (info["num_heads"], info["hidden_size"], info["num_layers"]) == (heads, graphs.HIDDEN, 1)
    assert (info["fused"]["Attention"], info["fused"]["SkipLayerNormalization"]) == (1, 1)
    assert 0 not in info["fused"].values()
    assert attribute(made, "Attention", "num_heads") == [heads]
    assert graphs.operators(made)["Softmax"] == 0
    # The samples' masks have gaps: the optimizer's default takes them for a number of tokens.
    assert graphs.largest_error(source, made) < 1e-5
    assert graphs.largest_error(source, made, graphs.task_of(source, tokens=9)) < 1e-5


@pytest.mark.parametrize(("told", "fused"), [((2, 8), 1), ((0, 0), 0), ((1, 4), 1)])
def test_optimizer_believes_what_it_is_told(told: tuple[int, int], fused: int) -> None:
    """Why heads are found and not guessed: where the graph computes its shapes, wrong ones give another model."""
    from onnxruntime.transformers import fusion_options, optimizer

    source = graphs.encoder(heads=2, computed_shapes=True)
    options = fusion_options.FusionOptions("bert")
    options.use_raw_attention_mask(True)
    copy = ModelProto.FromString(source.SerializeToString())
    made = optimizer.optimize_by_fusion(copy, "bert", *told, optimization_options=options).model
    assert graphs.operators(made)["Attention"] == fused
    is_right = graphs.largest_error(source, made) < 1e-5
    assert is_right == (told != (1, 4))


def test_other_outputs_are_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the wrong heads found, the step would fail."""
    import sys

    wrong = Attention(num_heads=1, hidden_size=4, num_layers=1)
    module = sys.modules[type(catalog.variant("ort_transformers").variant).__module__]
    monkeypatch.setattr(module, "find_attention", lambda model, task: wrong)
    with pytest.raises(ArtifactError, match="the rewritten model is another one: output y of training sample 0"):
        graphs.apply("ort_transformers", graphs.encoder(heads=2, computed_shapes=True), tmp_path)
    assert not (tmp_path / "ort_transformers.onnx").exists()


def test_layers_must_agree() -> None:
    first, second = graphs.encoder(heads=2), graphs.encoder(heads=4)
    from onnx import compose

    second.graph.node[0].CopyFrom(node("Identity", ["features"], ["embedded"]))
    del second.graph.input[:]
    second.graph.input.extend(
        [
            helper.make_tensor_value_info("features", graphs.FLOAT, ["batch", "tokens", graphs.HIDDEN]),
            helper.make_tensor_value_info("mask", graphs.INT64, ["batch", "tokens"]),
        ]
    )
    both = compose.merge_models(first, second, io_map=[("y", "features")], prefix1="first_", prefix2="second_")
    with pytest.raises(RefusedError, match=r"differs: \(heads, hidden size\) are \[\(2, 8\), \(4, 8\)\]"):
        find(both)


def without_heads() -> ModelProto:
    """Attention over (batch, tokens, tokens) scores."""
    return graphs.model_of(
        [
            node("MatMul", ["x", "w"], ["q"]),
            node("Transpose", ["x"], ["k"], perm=[0, 2, 1]),
            node("MatMul", ["q", "k"], ["scores"]),
            node("Softmax", ["scores"], ["weights"], axis=-1),
            node("MatMul", ["weights", "x"], ["y"]),
        ],
        {"w": graphs.floats(8, 8)},
        inputs={"x": ["batch", 6, 8]},
        outputs={"y": ["batch", 6, 8]},
    )


def classifier() -> ModelProto:
    return graphs.model_of(
        [node("MatMul", ["x", "w"], ["logits"]), node("Softmax", ["logits"], ["y"], axis=-1)],
        {"w": graphs.floats(8, 3)},
        inputs={"x": ["batch", 8]},
        outputs={"y": ["batch", 3]},
    )


def without_projections() -> ModelProto:
    """Heads from a convolution: no weights that a hidden size could be read off."""
    return graphs.model_of(
        [
            node("Conv", ["x", "w"], ["c"]),
            node("Transpose", ["c"], ["t"], perm=[0, 1, 3, 2]),
            node("MatMul", ["c", "t"], ["scores"]),
            node("Softmax", ["scores"], ["weights"], axis=-1),
            node("MatMul", ["weights", "c"], ["y"]),
        ],
        {"w": graphs.floats(4, 3, 1, 1)},
        inputs={"x": ["batch", 3, 6, 8]},
        outputs={"y": ["batch", 4, 6, 8]},
    )


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (classifier(), "no attention in this model"),
        (without_heads(), r"heads cannot be told, the scores are \(\?, 6, 6\), not \(N, H, T, S\)"),
        (without_projections(), "hidden size cannot be told"),
        (
            graphs.encoder(key_width=4),
            r"2 heads of size 2 contradict the projections' widths, .*'queries': 4.*'values': 8",
        ),
    ],
    ids=["no attention", "no heads", "no projections", "narrow keys"],
)
def test_what_cannot_be_told_is_refused(model: ModelProto, message: str, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=message):
        graphs.apply("ort_transformers", model, tmp_path)
    assert not (tmp_path / "ort_transformers.onnx").exists()


def test_guard_behind_the_softmax_hides_nothing(tmp_path: Path) -> None:
    """PyTorch exports scaled_dot_product_attention with a Where against NaN, and queries and keys scaled apart."""
    source = graphs.encoder()
    nodes = {item.output[0]: at for at, item in enumerate(source.graph.node)}
    source.graph.node[nodes["weights"]].output[0] = "unguarded"
    guard = [
        node("IsNaN", ["unguarded"], ["is_nan"]),
        graphs.constant("nothing", np.float32(0)),
        node("Where", ["is_nan", "nothing", "unguarded"], ["weights"]),
    ]
    for at, item in enumerate(guard):
        source.graph.node.insert(nodes["weights"] + 1 + at, item)
    made, info = graphs.apply("ort_transformers", source, tmp_path)
    assert (info["num_heads"], info["hidden_size"]) == (2, graphs.HIDDEN)
    assert "Attention" not in info["fused"]
    assert graphs.largest_error(source, made) < 1e-5
