"""onnxslim: the nodes that it folds, and how it treats weights that layers share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper

from support import deferred
from support import variant_graphs as graphs

deferred.importorskip("onnxslim")
pytest.importorskip("onnxruntime")

node = helper.make_node
WIDTH = 40  # 1,600 elements: more than what onnxslim merges by default


def tied() -> ModelProto:
    """Three layers of one weight, handed on by an Identity for each, as PyTorch's older exporter writes it."""
    nodes = []
    for layer, (before, after) in enumerate(zip("xab", "aby", strict=True)):
        nodes.append(node("Identity", ["w"], [f"w{layer}"]))
        nodes.append(node("MatMul", [before, f"w{layer}"], [after]))
    weights = {"w": graphs.floats(WIDTH, WIDTH) / 8}
    return graphs.model_of(nodes, weights, inputs={"x": ["batch", WIDTH]}, outputs={"y": ["batch", WIDTH]})


def num_copies(model: ModelProto, weight: np.ndarray) -> int:
    return sum(np.array_equal(array, weight) for array in graphs.stored(model).values())


def test_tied_weights_are_copied_unless_asked_not_to(tmp_path: Path) -> None:
    source = tied()
    # In one process, and back again: the package keeps its limit from one call to the next.
    for variant, copies in (("onnxslim", 3), ("onnxslim-tied", 1), ("onnxslim", 3)):
        made, _ = graphs.apply(variant, source, tmp_path)
        assert graphs.operators(made) == {"MatMul": 3}
        assert num_copies(made, graphs.stored(source)["w"]) == copies
        assert graphs.largest_error(source, made) < 1e-5  # a stored weight is multiplied in another order


def test_copies_are_merged_by_a_second_step(tmp_path: Path) -> None:
    source = tied()
    copied, _ = graphs.apply("onnxslim", source, tmp_path)
    merged, info = graphs.apply("dedup", copied, tmp_path, graphs.task_of(source))
    assert info == {"num_removed": 2}
    assert num_copies(merged, graphs.stored(source)["w"]) == 1
    assert (tmp_path / "dedup.onnx").stat().st_size < (tmp_path / "source.onnx").stat().st_size / 2
    assert graphs.largest_error(copied, merged) == 0


@pytest.mark.parametrize("variant", ["onnxslim", "onnxslim-tied"])
def test_constants_are_folded_and_dead_nodes_go(variant: str, tmp_path: Path) -> None:
    source = graphs.model_of(
        [
            node("Sqrt", ["four"], ["two"]),
            node("Mul", ["x", "two"], ["twice"]),
            node("Exp", ["x"], ["unused"]),
            node("Identity", ["twice"], ["y"]),
        ],
        {"four": np.float32(4)},
        inputs={"x": ["batch", 4]},
        outputs={"y": ["batch", 4]},
    )
    made, _ = graphs.apply(variant, source, tmp_path)
    assert graphs.operators(made) == {"Mul": 1}
    assert graphs.largest_error(source, made) == 0


@pytest.mark.parametrize("opset", [17, 20, 23])
def test_encoder_keeps_its_dynamic_dimensions(opset: int, tmp_path: Path) -> None:
    source = graphs.encoder(opset=opset, computed_shapes=True)
    made, _ = graphs.apply("onnxslim", source, tmp_path)
    assert len(made.graph.node) < len(source.graph.node)
    assert graphs.largest_error(source, made) < 1e-5
    longer = graphs.task_of(source, tokens=9)
    assert graphs.largest_error(source, made, longer) < 1e-5


def test_subgraphs_stay_whole(tmp_path: Path) -> None:
    source = graphs.looped([node("Mul", ["state", "half"], ["next"])], {"half": np.float32(0.5)})
    made, _ = graphs.apply("onnxslim", source, tmp_path)
    assert graphs.operators(made)["Loop"] == 1
    assert graphs.largest_error(source, made) == 0
