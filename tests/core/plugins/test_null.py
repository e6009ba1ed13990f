"""The null runtime and the toy task."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from bench.api import Session
from bench.api.errors import ArtifactError
from bench.plugins import catalog

TOY = catalog.task("toy")


def open_null(path: Path) -> Session:
    return catalog.runtime("null").open(path, task=TOY, source="null", provider="cpu", threads=1)


def test_toy_is_right_as_it_is_and_wrong_with_another_scale(tmp_path: Path) -> None:
    samples = TOY.samples("test")
    right = {"y": open_null(TOY.weights_path).run(samples.inputs)[0]}
    assert TOY.loss(right, samples.targets) == 0
    assert TOY.metrics(right, samples.targets) == {"accuracy": 1.0}
    (tmp_path / "wrong.null").write_text(json.dumps({"rounds": 0, "scale": 2.001}))
    wrong = {"y": open_null(tmp_path / "wrong.null").run(samples.inputs)[0]}
    assert wrong["y"].dtype == np.float32
    assert TOY.loss(wrong, samples.targets) > 0
    assert TOY.metrics(wrong, samples.targets) == {"accuracy": 0.0}


def test_work_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = []

    class Counting:
        def update(self, block: bytes) -> None:
            blocks.append(len(block))

    monkeypatch.setattr(hashlib, "sha256", Counting)
    (tmp_path / "model.null").write_text(json.dumps({"rounds": 103, "scale": 1.0}))
    open_null(tmp_path / "model.null").run(TOY.samples("test").inputs)
    assert len(blocks) == 103
    assert max(blocks) < 2048  # from there hashlib lets go of the interpreter


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"rounds": "many", "scale": 1}', '{"rounds": 1}'])
def test_bad_artifact_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "bad.null").write_text(content)
    with pytest.raises(ArtifactError, match=r"bad\.null is not a null artifact"):
        open_null(tmp_path / "bad.null")
