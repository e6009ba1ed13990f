"""ncnn: the order of outputs, what it does to inputs, and files that cannot be loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.api import Session, Task, TensorSpec
from bench.api.errors import ArtifactError
from bench.plugins import catalog
from bench.plugins.engines.archive import pack
from support import small_models

pytest.importorskip("ncnn")
PARAMS = """7767517
{layers} {blobs}
Input in0 0 1 in0
{others}
"""


def opened(folder: Path, *others: str, task: Task | None = None, num_blobs: int | None = None) -> Session:
    layers = 1 + len(others)
    text = PARAMS.format(layers=layers, blobs=num_blobs or layers, others="\n".join(others))
    (folder / "model.param").write_text(text)
    (folder / "model.bin").write_bytes(b"")
    pack(folder, ("model.param", "model.bin"), folder / "artifact.ncnn")
    return catalog.runtime("ncnn").open(
        folder / "artifact.ncnn", task=task or catalog.task("toy"), source="torch", provider="cpu", threads=1
    )


def test_layers_that_ncnn_does_not_have_are_named_once(tmp_path: Path) -> None:
    unknown = ("Tensor.to a 1 1 in0 x", "ReLU b 1 1 x y", "Tensor.to c 1 1 y z", "aten::cumsum d 1 1 z out0")
    with pytest.raises(ArtifactError) as raised:
        opened(tmp_path, *unknown)
    assert str(raised.value) == "ncnn cannot load this model: it has no layers Tensor.to, aten::cumsum"


def test_weights_that_are_missing_are_no_unknown_layers(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"^ncnn cannot load this model: its layers or weights are damaged$"):
        opened(tmp_path, "InnerProduct a 1 1 in0 out0 0=4 1=1 2=16")


def test_a_file_of_layers_that_ncnn_has_is_opened(tmp_path: Path) -> None:
    opened(tmp_path, "ReLU a 1 1 in0 out0").close()


class TwoTask(small_models.SmallTask):
    """Rows, and two outputs of them."""

    inputs = (TensorSpec(name="rows", dtype="float32", shape=("batch", 3)),)
    outputs = tuple(TensorSpec(name=name, dtype="float32", shape=("batch", 3)) for name in ("scores", "boxes"))


def test_outputs_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    layers = ("Split s 1 2 in0 a b", "BinaryOp d 1 1 a out1 0=2 1=1 2=2.0", "BinaryOp t 1 1 b out0 0=2 1=1 2=3.0")
    rows = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    with opened(tmp_path, *layers, task=small_models.make_task(TwoTask), num_blobs=5) as session:
        scores, boxes = session.run({"rows": rows})
    np.testing.assert_array_equal(scores, rows * 3)
    np.testing.assert_array_equal(boxes, rows * 2)


class RowsTask(small_models.SmallTask):
    """Pictures of an odd size, clipped at 0."""

    inputs = (TensorSpec(name="x", dtype="float32", shape=("batch", 2, 3, 3)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 2, 3, 3)),)


def test_a_layer_that_writes_into_its_input_leaves_the_request_as_it_is(tmp_path: Path) -> None:
    x = np.arange(-20, 16, dtype=np.float32).reshape(2, 2, 3, 3)
    before = x.copy()
    x.flags.writeable = False
    with opened(tmp_path, "ReLU a 1 1 in0 out0", task=small_models.make_task(RowsTask)) as session:
        first = session.run({"x": x})[0]
        second = session.run({"x": x + 1})[0]
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(first, np.maximum(before, 0))
    np.testing.assert_array_equal(second, np.maximum(before + 1, 0))


class IntegersTask(small_models.SmallTask):
    """Numbers of a type of which ncnn has half the bits."""

    inputs = (TensorSpec(name="x", dtype="int64", shape=("batch", 3)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 3)),)


def test_integers_that_have_no_room_are_refused(tmp_path: Path) -> None:
    with (
        opened(tmp_path, "ReLU a 1 1 in0 out0", task=small_models.make_task(IntegersTask)) as session,
        pytest.raises(ArtifactError, match=r"^the file takes numbers as int32, in which 3000000000 has no room$"),
    ):
        session.run({"x": np.array([[1, 3_000_000_000, 2]])})
