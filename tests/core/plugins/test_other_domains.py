"""Variants of a file that has operators of other domains alone, as XGBoost's trees."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from bench.plugins import catalog
from support import variant_graphs as graphs

pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("name", ["onnxslim", "onnxscript", "onnxoptimizer", "dedup"])
def test_a_file_without_operators_of_onnx_itself_is_taken(name: str, tmp_path: Path) -> None:
    """onnxslim ended in an error where the file states no version of ONNX's own operators."""
    if (reason := catalog.variant(name).variant.skip()) is not None:
        pytest.skip(reason)
    source = graphs.model_of(
        [helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[0.5], scale=[2.0])],
        {},
        inputs={"x": ["batch", 4]},
        outputs={"y": ["batch", 4]},
        domains=["ai.onnx.ml"],
    )
    own = next(index for index, entry in enumerate(source.opset_import) if not entry.domain)
    del source.opset_import[own]
    onnx.checker.check_model(source)
    made, info = graphs.apply(name, source, tmp_path)
    assert [node.op_type for node in made.graph.node if node.domain] == ["Scaler"]
    assert graphs.largest_error(source, made) < 1e-6
    assert "note" not in info
