"""static_shapes: sizes are fixed, shape computation is gone, and the batch stays dynamic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper

from bench.api.errors import ArtifactError, RefusedError
from bench.onnxfile.file.interface import check_interface, check_kept
from bench.plugins import catalog
from support import variant_graphs as graphs

pytest.importorskip("onnxruntime")

node = helper.make_node


def dims(model: ModelProto) -> dict[str, list[int | str]]:
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }


@pytest.mark.parametrize("opset", [17, 20, 23])
def test_reshapes_of_an_encoder_get_constant_shapes(opset: int, tmp_path: Path) -> None:
    source = graphs.encoder(opset=opset, computed_shapes=True)
    made, info = graphs.apply("static_shapes", source, tmp_path)
    assert dims(made) == {"ids": ["batch", 6], "mask": ["batch", 6], "y": ["batch", 6, 8]}
    before, after = graphs.operators(source), graphs.operators(made)
    assert (before["Shape"], before["Concat"], before["Gather"]) == (1, 4, 3)
    assert (after["Shape"], after["Concat"], after["Gather"]) == (0, 0, 1)
    told = [graphs.stored(made)[item.input[1]].tolist() for item in made.graph.node if item.op_type == "Reshape"]
    assert told == [[-1, 6, 2, 4], [-1, 6, 2, 4], [-1, 6, 2, 4], [-1, 6, 8]]
    assert graphs.largest_error(source, made) == 0
    assert info == {
        "inputs": {"ids": ["batch", "6"], "mask": ["batch", "6"]},
        "num_folded": len(source.graph.node) - len(made.graph.node),
    }


def test_there_is_nothing_left_for_a_second_time(tmp_path: Path) -> None:
    source = graphs.encoder(computed_shapes=True)
    once, _ = graphs.apply("static_shapes", source, tmp_path)
    twice, info = graphs.apply("static_shapes", once, tmp_path, graphs.task_of(source))
    assert twice.SerializeToString() == once.SerializeToString()
    assert info["num_folded"] == 0


def image_model(nodes: list[object], weights: dict[str, np.ndarray], rest: tuple[str, ...] = ()) -> ModelProto:
    return graphs.model_of(
        nodes,
        weights,
        inputs={"x": ["batch", 3, "height", "width"]},
        outputs={"y": ["batch", *rest]},
    )


def test_upsampling_and_grids_are_folded(tmp_path: Path) -> None:
    """Sizes of an image, doubled for a Resize, and a ramp over its width."""
    source = image_model(
        [
            node("Shape", ["x"], ["size"], start=2),
            node("Mul", ["size", "two"], ["doubled"]),
            node("Shape", ["x"], ["front"], end=2),
            node("Concat", ["front", "doubled"], ["sizes"], axis=0),
            node("Resize", ["x", "", "", "sizes"], ["large"], mode="nearest"),
            node("Gather", ["doubled", "last"], ["width2"]),
            node("Range", ["zero", "width2", "one"], ["ramp"]),
            node("Cast", ["ramp"], ["ramp_float"], to=graphs.FLOAT),
            node("Add", ["large", "ramp_float"], ["y"]),
        ],
        {"two": np.array([2]), "last": np.array(1), "zero": np.array(0), "one": np.array(1)},
        ("channels", "height2", "width2"),
    )
    task = graphs.task_of(source, height=5, width=4)
    made, _ = graphs.apply("static_shapes", source, tmp_path, task)
    found = graphs.operators(made)
    # The Resize is told the batch, too: that stays a computation.
    assert (found["Range"], found["Cast"], found["Mul"], found["Gather"]) == (0, 0, 0, 0)
    assert (found["Resize"], found["Shape"], found["Concat"]) == (1, 1, 1)
    assert dims(made)["y"] == ["batch", 3, 10, 8]
    assert np.array_equal(graphs.stored(made)["ramp_float"], np.arange(8, dtype=np.float32))
    assert graphs.largest_error(source, made, task) == 0


def test_expand_leaves_the_batch_as_it_is(tmp_path: Path) -> None:
    source = image_model(
        [
            node("ReduceMean", ["x", "axes"], ["mean"], keepdims=1),
            node("Shape", ["x"], ["size"]),
            node("Expand", ["mean", "size"], ["wide"]),
            node("Sub", ["x", "wide"], ["y"]),
        ],
        {"axes": np.array([2, 3])},
        ("channels", "h", "w"),
    )
    task = graphs.task_of(source, height=5, width=4)
    made, _ = graphs.apply("static_shapes", source, tmp_path, task)
    assert graphs.operators(made)["Shape"] == 0
    (expand,) = (item for item in made.graph.node if item.op_type == "Expand")
    assert graphs.stored(made)[expand.input[1]].tolist() == [1, 1, 5, 4]
    assert graphs.largest_error(source, made, task) == 0


def test_what_needs_the_batch_itself_goes_on_asking(tmp_path: Path) -> None:
    """The zeros that an LSTM starts from, and a Reshape that two sizes depend on."""
    source = graphs.model_of(
        [
            node("Shape", ["x"], ["n"], end=1),
            node("Concat", ["n", "four"], ["size"], axis=0),
            node("ConstantOfShape", ["size"], ["zeros"]),
            node("Add", ["x", "zeros"], ["sum"]),
            node("Concat", ["n", "two", "n", "half"], ["odd"], axis=0),
            node("Tile", ["sum", "tiles"], ["tiled"]),
            node("MatMul", ["tiled", "flip"], ["y"]),
        ],
        {"four": np.array([4]), "two": np.array([2]), "half": np.array([2]), "tiles": np.array([1, 2])}
        | {"flip": graphs.floats(8, 3)},
        inputs={"x": ["batch", 4]},
        outputs={"y": ["batch", 3]},
    )
    made, _ = graphs.apply("static_shapes", source, tmp_path)
    assert [item.op_type for item in made.graph.node] == ["Shape", "Concat", "ConstantOfShape", "Add", "Tile", "MatMul"]
    assert graphs.largest_error(source, made) == 0


def test_weights_tied_by_an_identity_stay_tied(tmp_path: Path) -> None:
    source = graphs.model_of(
        [
            node("Identity", ["w"], ["again"]),
            node("MatMul", ["x", "w"], ["a"]),
            node("MatMul", ["a", "again"], ["y"]),
        ],
        {"w": graphs.floats(8, 8)},
        inputs={"x": ["batch", 8]},
        outputs={"y": ["batch", 8]},
    )
    made, _ = graphs.apply("static_shapes", source, tmp_path)
    assert graphs.operators(made)["Identity"] == 1
    assert len(made.graph.initializer) == 1


def test_loop_reads_what_was_folded_around_it(tmp_path: Path) -> None:
    around = [
        node("Shape", ["x"], ["width"], start=1),
        node("Cast", ["width"], ["width_float"], to=graphs.FLOAT),
        node("Div", ["width_float", "eight"], ["factor"]),
    ]
    source = graphs.looped([node("Mul", ["state", "factor"], ["next"])], {"eight": np.float32([8])}, around)
    made, _ = graphs.apply("static_shapes", source, tmp_path)
    assert [item.op_type for item in made.graph.node] == ["Loop"]
    assert graphs.stored(made)["factor"].tolist() == [0.5]
    assert graphs.largest_error(source, made) == 0


def test_sizes_of_the_file_that_are_not_the_samples_are_refused(tmp_path: Path) -> None:
    source = image_model([node("Relu", ["x"], ["y"])], {}, (3, "height", "width"))
    task = graphs.task_of(source, height=5, width=4)
    source.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 7
    with pytest.raises(RefusedError, match="axis 2 of input x is fixed to 7 already; the samples have 5"):
        graphs.apply("static_shapes", source, tmp_path, task)


def test_frozen_file_goes_through_other_variants(tmp_path: Path) -> None:
    """A size that the source fixes may stay fixed; one that a variant fixes by itself may not."""
    source = graphs.encoder(computed_shapes=True)
    task = graphs.task_of(source)
    frozen, _ = graphs.apply("static_shapes", source, tmp_path)
    for name in ("onnxoptimizer", "fp16", "ort_transformers", "ort-all", "dedup"):
        made, _ = graphs.apply(name, frozen, tmp_path, task)
        assert dims(made)["ids"] == ["batch", 6]
    (tmp_path / "dynamic.onnx").write_bytes(source.SerializeToString())
    with pytest.raises(ArtifactError, match="input ids"):
        check_kept(tmp_path / "static_shapes.onnx", tmp_path / "dynamic.onnx", task, may_fix=False)
    with pytest.raises(ArtifactError, match="input ids"):
        check_interface(tmp_path / "static_shapes.onnx", task)


def test_variant_says_that_it_freezes() -> None:
    assert catalog.variant("static_shapes").variant.freezes
    assert not catalog.variant("fp16").variant.freezes
