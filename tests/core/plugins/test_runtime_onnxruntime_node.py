"""ONNX Runtime in Node.js: the outputs of ONNX Runtime here, in all types, and models that it cannot open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.api import Task
from bench.api.errors import ArtifactError
from bench.plugins import catalog
from support import small_models, typed_model

RUNTIME = catalog.runtime("onnxruntime_node")
pytestmark = pytest.mark.skipif(RUNTIME.skip() is not None, reason=str(RUNTIME.skip()))


@pytest.fixture
def task() -> Task:
    return small_models.make_task(typed_model.TypesTask)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return typed_model.save(tmp_path / "types.onnx")


def test_outputs_of_all_types_come_in_the_order_of_the_task(task: Task, file: Path) -> None:
    with RUNTIME.open(file, task=task, source="torch", provider="cpu", threads=1) as session:
        for batch in (1, 2):
            feeds = typed_model.feeds(batch)
            typed_model.assert_right(session.run(feeds), feeds)


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
    right = {name: np.ones((1, 3), name) for name in typed_model.NAMES}
    with RUNTIME.open(file, task=task, source="torch", provider="cpu", threads=1) as session:
        with pytest.raises(ArtifactError, match="Got invalid dimensions for input: float32"):
            session.run(right | {"float32": np.ones((1, 4), np.float32)})
        np.testing.assert_array_equal(session.run(right)[-1], 2 * right["float32"])
