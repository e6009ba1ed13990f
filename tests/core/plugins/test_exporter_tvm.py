"""TVM's export of what TVM does not take: the reason names the operator and what of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import ArtifactError
from bench.plugins import catalog
from support import small_models as small

pytestmark = pytest.mark.framework


def convert(model: onnx.ModelProto, folder: Path) -> None:
    exporter: Any = catalog.exporter("torch_tvm")
    if (reason := exporter.skip()) is not None:
        pytest.skip(reason)
    onnx.save(model, folder / "model.onnx")
    exporter.convert_onnx(folder / "model.onnx", small.make_task(), folder / "artifact.tvm")


def test_an_operator_on_a_shape_that_tvm_does_not_know_is_named(tmp_path: Path) -> None:
    """Two dynamic sizes of other names are added, of which each may be 1."""
    nodes = [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Expand", ["sum", "sizes"], ["y"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"of_{name}", 3]) for name in ("a", "b")]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, "number", 3])
    sizes = numpy_helper.from_array(np.array([4, 1, 3]), "sizes")
    with pytest.raises(ArtifactError) as raised:
        convert(small.make_valid(helper.make_graph(nodes, "graph", ports, [y], [sizes])), tmp_path)
    assert str(raised.value) == "TVM cannot translate Expand of a tensor whose shape it cannot infer"
    assert not (tmp_path / "artifact.tvm").exists()


def test_an_lstm_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"not supported for frontend ONNX: LSTM$"):
        convert(small.make_model(), tmp_path)
    assert not (tmp_path / "artifact.tvm").exists()
