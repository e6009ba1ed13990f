"""Bytes of weights that an inference reads: all but tables of which rows are looked up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.onnxfile.weights import reading

TABLE, HEAD = np.ones((10, 8), np.float32), np.ones((8, 10), np.float32)


def written(path: Path, *, is_tied: bool = False, bits: int = 32) -> Path:
    """A table of 320 bytes in which an id is looked up, and a product with a head of as many."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["row"]),
        helper.make_node("MatMul", ["row", "head"], ["logits"]),
    ]
    tensors = [numpy_helper.from_array(TABLE, "table"), numpy_helper.from_array(HEAD, "head")]
    if is_tied:
        nodes.insert(1, helper.make_node("Transpose", ["table"], ["head"]))
        del tensors[1]
    if bits == 4:
        tensors.append(helper.make_tensor("half", TensorProto.UINT4, [3, 3], [1] * 9))
        nodes.append(helper.make_node("Identity", ["half"], ["other"]))
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 10])
    onnx.save(helper.make_model(helper.make_graph(nodes, "decoder", [ids], [logits], tensors)), path)
    return path


@pytest.mark.parametrize(("changes", "num_bytes"), [({}, 320), ({"is_tied": True}, 320), ({"bits": 4}, 325)])
def test_rows_that_are_looked_up_count_as_none(tmp_path: Path, changes: dict[str, Any], num_bytes: int) -> None:
    assert reading.bytes_read(written(tmp_path / "model.onnx", **changes)) == num_bytes


def test_weights_in_another_file_are_not_read(tmp_path: Path) -> None:
    path = written(tmp_path / "model.onnx")
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").unlink()
    assert reading.bytes_read(path) == 320
