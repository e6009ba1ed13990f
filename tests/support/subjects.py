"""Cells of a faulty runtime for tests of blocks and of services."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.measure.subject import Subject
from bench.pipeline import opening, prepare
from bench.pipeline.flow import Verified
from bench.plugins import catalog
from bench.records.lines import Quality
from support.blocks import FLAKY, METHOD


@pytest.fixture
def make(plugin_folder: Path, tmp_path: Path) -> Any:
    (plugin_folder / "runtimes").mkdir()
    (plugin_folder / "runtimes" / "flaky.py").write_text(FLAKY)
    catalog.forget()
    inputs = prepare.inputs_of(catalog.task("toy"), METHOD.limits)

    def make(name: str, **model: Any) -> Subject:
        """A cell whose variant has that name; `model` may hold `load_s`, `run_s`, `input_s`, `fail_at` and `how`."""
        path = tmp_path / f"{name}.null"
        path.write_text(json.dumps({"rounds": 1, "scale": 2.0, **model}))
        artifact = Artifact(path=path, format="null", sha256=name, size_bytes=1)
        cell = Cell.from_path(f"toy/null/native/{name}/flaky/cpu/b2t1")
        quality = Quality(fidelity="exact")
        return opening.subject(Verified(cell=cell, key=name, artifact=artifact, inputs=inputs, quality=quality))

    return make
