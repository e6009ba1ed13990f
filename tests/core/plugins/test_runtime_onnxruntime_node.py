"""ONNX Runtime in Node.js: the outputs of ONNX Runtime here, in all types, and models that it cannot open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bench.api import Task, TensorSpec
from bench.api.errors import ArtifactError
from bench.plugins import catalog
from support import small_models

NAMES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}
RUNTIME = catalog.runtime("onnxruntime_node")
pytestmark = pytest.mark.skipif(RUNTIME.skip() is not None, reason=str(RUNTIME.skip()))


class TypesTask(small_models.SmallTask):
    """Each input is an output, too, but for the numbers, which are doubled; a batch of any size."""

    inputs = tuple(TensorSpec(name=name, dtype=name, shape=("batch", 3)) for name in NAMES)
    outputs = tuple(TensorSpec(name=f"{name}_out", dtype=name, shape=("batch", 3)) for name in reversed(NAMES))


@pytest.fixture
def task() -> Task:
    return small_models.make_task(TypesTask)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("Identity" if name == "bool" else "Add", [name] * (1 + (name != "bool")), [f"{name}_out"])
        for name in NAMES
    ]
    inputs = [helper.make_tensor_value_info(name, kind, ["batch", 3]) for name, kind in NAMES.items()]
    outputs = [helper.make_tensor_value_info(f"{name}_out", kind, ["batch", 3]) for name, kind in NAMES.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "types", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    onnx.checker.check_model(model)
    onnx.save(model, tmp_path / "types.onnx")
    return tmp_path / "types.onnx"


def test_outputs_of_all_types_come_in_the_order_of_the_task(task: Task, file: Path) -> None:
    with RUNTIME.open(file, task=task, source="torch", provider="cpu", threads=1) as session:
        for batch in (1, 2):
            numbers = np.arange(3 * batch).reshape(batch, 3) - 2
            feeds = {"float32": np.float32(numbers / 7), "int64": numbers * 2**40, "bool": numbers > 0}
            found = session.run(feeds)
            for array, name in zip(found, reversed(NAMES), strict=True):
                assert array.dtype.name == name
                np.testing.assert_array_equal(array, feeds[name] if name == "bool" else feeds[name] * 2)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"no model", "Protobuf parsing failed"), (None, "Load model from .* failed")]
)
def test_a_file_that_is_no_model_is_an_error(task: Task, tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ArtifactError, match=reason):
        RUNTIME.open(path, task=task, source="torch", provider="cpu", threads=1)


def test_feeds_that_do_not_fit_are_an_error_and_the_next_answer_is_right(task: Task, file: Path) -> None:
    right = {name: np.ones((1, 3), name) for name in NAMES}
    with RUNTIME.open(file, task=task, source="torch", provider="cpu", threads=1) as session:
        with pytest.raises(ArtifactError, match="Got invalid dimensions for input: float32"):
            session.run(right | {"float32": np.ones((1, 4), np.float32)})
        np.testing.assert_array_equal(session.run(right)[-1], 2 * right["float32"])
