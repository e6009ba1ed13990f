"""Outputs of an ONNX file come in the order of the task, which may not be that of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.plugins import catalog
from support import small_models, typed_model


@pytest.mark.parametrize("name", ["onnx_reference", "onnxruntime", "onnxruntime_iobinding", "tract"])
def test_outputs_come_in_the_order_of_the_task(name: str, tmp_path: Path) -> None:
    runtime = catalog.runtime(name)
    if (reason := runtime.skip()) is not None:
        pytest.skip(reason)
    file, task = typed_model.save(tmp_path / "types.onnx"), small_models.make_task(typed_model.TypesTask)
    feeds = typed_model.feeds(2)
    with runtime.open(file, task=task, source="torch", provider="cpu", threads=1) as session:
        typed_model.assert_right(session.run(feeds), feeds)
