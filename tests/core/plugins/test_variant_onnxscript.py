"""onnxscript's optimizer: the nodes that it folds and fuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, helper

from bench.onnxfile.file.digest import all_graphs, all_nodes
from support import deferred
from support import variant_graphs as graphs

deferred.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

node = helper.make_node


def test_small_constants_are_folded_and_equal_ones_merged(tmp_path: Path) -> None:
    source = graphs.model_of(
        [
            graphs.constant("four", np.float32(4)),
            node("Sqrt", ["four"], ["two"]),
            node("Mul", ["x", "two"], ["twice"]),
            node("Identity", ["twice"], ["same"]),
            node("Add", ["same", "other_two"], ["y"]),
        ],
        {"other_two": np.float32(2)},
        inputs={"x": ["batch", 4]},
        outputs={"y": ["batch", 4]},
    )
    made, info = graphs.apply("onnxscript", source, tmp_path)
    assert graphs.operators(made) == {"Mul": 1, "Add": 1}
    assert [array.item() for array in graphs.stored(made).values()] == [2.0]
    assert graphs.largest_error(source, made) == 0
    assert info == {}


def test_plain_optimizer_leaves_attention_and_ort_fuses_it(tmp_path: Path) -> None:
    source = graphs.encoder()
    plain, _ = graphs.apply("onnxscript", source, tmp_path)
    assert not any(item.domain for item in plain.graph.node)
    assert graphs.largest_error(source, plain) < 1e-5
    fused, info = graphs.apply("onnxscript-ort", source, tmp_path)
    found = graphs.operators(fused)
    assert (found["SkipLayerNormalization"], found["MultiHeadAttention"], found["Softmax"]) == (1, 1, 0)
    assert info == {"fused": {"skip_layer_normalization": 1, "sdpa": 1, "mha2": 1}}
    assert graphs.largest_error(source, fused) < 1e-5
    assert {entry.domain for entry in fused.opset_import} == {"", "com.microsoft"}


@pytest.mark.parametrize("variant", ["onnxscript", "onnxscript-ort"])
@pytest.mark.parametrize("opset", [17, 20, 23])
def test_encoder_keeps_its_dynamic_dimensions(variant: str, opset: int, tmp_path: Path) -> None:
    source = graphs.encoder(opset=opset, computed_shapes=True)
    made, _ = graphs.apply(variant, source, tmp_path)
    for tokens in (graphs.TOKENS, 9):
        assert graphs.largest_error(source, made, graphs.task_of(source, tokens=tokens)) < 1e-5


def test_file_has_no_notes_on_what_was_folded(tmp_path: Path) -> None:
    made, _ = graphs.apply("onnxscript", graphs.encoder(computed_shapes=True), tmp_path)
    values = [value for graph in all_graphs(made) for value in (*graph.input, *graph.value_info, *graph.initializer)]
    assert not any(item.metadata_props for item in (*all_nodes(made), *all_graphs(made), *values))


def test_subgraphs_stay_whole(tmp_path: Path) -> None:
    source = graphs.looped([node("Mul", ["state", "half"], ["next"])], {"half": np.float32(0.5)})
    made, _ = graphs.apply("onnxscript", source, tmp_path)
    assert graphs.operators(made)["Loop"] == 1
    assert graphs.largest_error(source, made) == 0


@pytest.mark.parametrize(
    ("nodes", "made_of"),
    [
        # The rules read an attribute of an old Pad as an input that it has not got, and ended in an IndexError,
        ([node("Pad", ["x"], ["p"], pads=[0, 0, 1, 1, 0, 0, 1, 1]), node("Conv", ["p", "w"], ["y"])], {"Conv": 1}),
        # and took an old Clip behind a Relu for one without limits.
        (
            [
                node("Relu", ["x"], ["r"]),
                node("Clip", ["r"], ["c"], min=-1.0, max=0.5),
                node("Conv", ["c", "w"], ["y"], pads=[1, 1, 1, 1]),
            ],
            {"Clip": 1, "Conv": 1},
        ),
    ],
)
def test_old_files_are_raised_to_the_operator_set_of_the_rules(
    nodes: list[NodeProto], made_of: dict[str, int], tmp_path: Path
) -> None:
    source = graphs.model_of(
        nodes,
        {"w": graphs.floats(2, 3, 3, 3)},
        inputs={"x": ["batch", 3, 6, 6]},
        outputs={"y": ["batch", 2, 6, 6]},
        opset=10,
    )
    made, info = graphs.apply("onnxscript", source, tmp_path)
    assert graphs.operators(made) == made_of
    assert graphs.largest_error(source, made) < 1e-5
    assert info["note"] == "operator set 10 of the file before it was raised to 18"
