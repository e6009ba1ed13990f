"""A saved deployment that is opened again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.decisions import deployment, saved_deployment
from bench.plugins import catalog


def test_a_deployment_is_not_opened_on_a_provider_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = SimpleNamespace(
        cell=Cell.from_path("toy/null/native/raw/null/gpu/b1t1"),
        artifact=tmp_path / "toy.null",
        task=lambda: catalog.task("toy"),
    )
    recipe.artifact.write_text('{"rounds": 1, "scale": 2.0}')
    monkeypatch.setattr(deployment, "read", lambda folder: recipe)
    with pytest.raises(InputError, match="null has no provider 'gpu' here"):
        saved_deployment.load(tmp_path)
