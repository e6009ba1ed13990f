"""ONNX Runtime's offline optimization: its levels, and the properties of a model that it keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import ModelProto, helper

from bench.plugins import catalog
from support import variant_graphs as graphs

pytest.importorskip("onnxruntime")

node = helper.make_node


def image_model() -> ModelProto:
    """Basic drops the Identity, extended fuses the Relu, and all lays channels out in blocks where that helps."""
    return graphs.model_of(
        [
            node("Identity", ["x"], ["same"]),
            node("Conv", ["same", "w"], ["c"], pads=[1, 1, 1, 1]),
            node("Relu", ["c"], ["r"]),
            node("Conv", ["r", "v"], ["y"], pads=[1, 1, 1, 1]),
        ],
        {"w": graphs.floats(32, 16, 3, 3) / 12, "v": graphs.floats(16, 32, 3, 3) / 17},
        inputs={"x": ["batch", 16, 8, 8]},
        outputs={"y": ["batch", 16, 8, 8]},
    )


def test_the_first_option_is_what_a_session_does_itself() -> None:
    assert [name for name in catalog.variants() if name.startswith("ort-")] == ["ort-all", "ort-extended", "ort-basic"]


def test_each_level_does_more(tmp_path: Path) -> None:
    source = image_model()
    made = {name: graphs.apply(name, source, tmp_path)[0] for name in ("ort-basic", "ort-extended", "ort-all")}
    kinds = {name: {(item.domain, item.op_type) for item in model.graph.node} for name, model in made.items()}
    assert kinds["ort-basic"] == {("", "Conv"), ("", "Relu")}
    assert ("com.microsoft", "FusedConv") in kinds["ort-extended"]
    assert ("", "Relu") not in kinds["ort-extended"]
    # The layout depends on the processor: some have none of their own.
    assert ("", "Relu") not in kinds["ort-all"]
    for model in made.values():
        assert graphs.largest_error(source, model) < 1e-5
