"""ONNX Runtime in Node.js, native and in WebAssembly: right outputs in all types, and models that cannot be opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Task
from bench.api.errors import ArtifactError
from bench.api.program import ProgramRuntime
from bench.plugins import catalog
from support import node, small_models, typed_model


@pytest.fixture(params=["onnxruntime_node", "ort_web_node"])
def runtime(request: Any) -> Iterator[ProgramRuntime]:
    runtime = catalog.runtime(request.param)
    assert isinstance(runtime, ProgramRuntime)
    node.need(runtime)
    yield runtime
    if type(runtime).running is not None:
        type(runtime).running.close()
        type(runtime).running = None


@pytest.fixture
def task() -> Task:
    return small_models.make_task(typed_model.TypesTask)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return typed_model.save(tmp_path / "types.onnx")


def test_outputs_of_all_types_come_in_the_order_of_the_task(runtime: ProgramRuntime, task: Task, file: Path) -> None:
    with runtime.open(file, task=task, source="torch", provider="cpu", threads=1) as session:
        for batch in (1, 2):
            feeds = typed_model.feeds(batch)
            typed_model.assert_right(session.run(feeds), feeds)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"no model", "[Pp]rotobuf parsing failed"), (None, "Load model from .* failed|no such file")],
)
def test_a_file_that_is_no_model_is_an_error(
    runtime: ProgramRuntime, task: Task, tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ArtifactError, match=reason):
        runtime.open(path, task=task, source="torch", provider="cpu", threads=1)


def test_feeds_that_do_not_fit_are_an_error_and_the_next_answer_is_right(
    runtime: ProgramRuntime, task: Task, file: Path
) -> None:
    right = {name: np.ones((1, 3), name) for name in typed_model.NAMES}
    with runtime.open(file, task=task, source="torch", provider="cpu", threads=1) as session:
        with pytest.raises(ArtifactError, match="invalid dimensions for input: float32"):
            session.run(right | {"float32": np.ones((1, 4), np.float32)})
        np.testing.assert_array_equal(session.run(right)[-1], 2 * right["float32"])


@pytest.mark.parametrize("runtime", ["ort_web_node"], indirect=True)
@pytest.mark.parametrize("planned", [True, False])
def test_webassembly_has_the_threads_that_are_asked_for(
    runtime: ProgramRuntime, task: Task, file: Path, monkeypatch: pytest.MonkeyPatch, planned: bool
) -> None:
    """It is started with those of the worker, or with those of the first session, and later ones must fit."""
    if planned:
        for name, value in runtime.environment(2).items():
            monkeypatch.setenv(name, value)
    with runtime.open(file, task=task, source="torch", provider="cpu", threads=2) as session:
        feeds = typed_model.feeds(2)
        typed_model.assert_right(session.run(feeds), feeds)
    with pytest.raises(ArtifactError, match="WebAssembly was started with 2 threads"):
        runtime.open(file, task=task, source="torch", provider="cpu", threads=1)
