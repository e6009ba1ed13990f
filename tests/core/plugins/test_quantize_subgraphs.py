"""What ONNX Runtime's quantizers tell of weights that subgraphs store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import GraphProto, ModelProto, helper, numpy_helper

from bench.api.errors import RefusedError
from support import variant_graphs as graphs

pytest.importorskip("onnxruntime")

node = helper.make_node


def branched(*, outer: bool) -> ModelProto:
    """A Gemm with a weight of its own in each branch of an If; 2 * 64 * 64 numbers.

    Args:
        outer: whether a product with a weight of the main graph, 64 * 64 numbers, comes before.
    """

    def branch(name: str, seed: int) -> GraphProto:
        weight = numpy_helper.from_array(graphs.floats(64, 64, seed=seed) / 8, f"{name}_w")
        value = helper.make_tensor_value_info(f"{name}_y", 1, ["batch", 64])
        made = node("Gemm", ["h", f"{name}_w"], [f"{name}_y"], transB=1, name=name)
        return helper.make_graph([made], name, [], [value], [weight])

    weights: dict[str, Any] = {"limit": np.float32(0), **({"w": graphs.floats(64, 64) / 8} if outer else {})}
    nodes = [
        node("MatMul", ["x", "w"], ["h"], name="h") if outer else node("Relu", ["x"], ["h"], name="h"),
        node("ReduceMax", ["x"], ["top"], keepdims=0, name="top"),
        node("Greater", ["top", "limit"], ["high"], name="high"),
        node("If", ["high"], ["y"], then_branch=branch("then", 1), else_branch=branch("else", 2), name="y"),
    ]
    return graphs.model_of(nodes, weights, inputs={"x": ["batch", 64]}, outputs={"y": ["batch", 64]})


@pytest.mark.parametrize("outer", [False, True], ids=["branches alone", "with a weight around them"])
def test_weights_of_branches_are_counted(outer: bool, tmp_path: Path) -> None:
    made, info = graphs.apply("matmul_nbits-float", branched(outer=outer), tmp_path)
    assert graphs.operators(made)["MatMulNBits"] == (3 if outer else 2)
    assert info == {"num_quantized": 3 if outer else 2, "num_left": 0}, "all is quantized, without a note"
    assert (tmp_path / "matmul_nbits-float.onnx").stat().st_size < (3 if outer else 2) * 64 * 64, "no float copy stays"


def test_what_is_left_in_branches_is_told(tmp_path: Path) -> None:
    _, info = graphs.apply("int8_dynamic", branched(outer=True), tmp_path)
    note = "only 33 % of the weights' numbers are quantized; the others are float32 as before"
    assert info == {"num_quantized": 1, "num_left": 2, "note": note}


def test_a_file_whose_weights_lie_in_branches_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"none of the file's 2 weights belong to MatMul, .* of the main graph"):
        graphs.apply("int8_dynamic", branched(outer=False), tmp_path)


@pytest.mark.parametrize("variant", ["int8_dynamic", "matmul_nbits-float"])
def test_a_file_without_weights_is_refused_by_saying_so(variant: str, tmp_path: Path) -> None:
    relu = node("Relu", ["x"], ["y"], name="relu")
    model = graphs.model_of([relu], {}, inputs={"x": ["batch", 64]}, outputs={"y": ["batch", 64]})
    with pytest.raises(RefusedError, match=r"^the file has no float32 weights that can be quantized$"):
        graphs.apply(variant, model, tmp_path)
