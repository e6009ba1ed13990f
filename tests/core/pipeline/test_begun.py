"""Outputs that are kept for a verification that goes on."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bench.api import cache
from bench.api.arrays import load_arrays, save_arrays
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.pipeline import first_outputs
from bench.pipeline.flow import Prepared
from bench.records.lines import Quality
from bench.records.metric_loss import Lost

JUDGES = ("code", "reference")
PART = Quality(fidelity="exact", num_samples=64, lost=Lost(num_samples=64, score=0.9, most=1.0, of=1000))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))


def cell(path: Path, key: str = "k") -> Prepared:
    artifact = Artifact(path=path, format="null", sha256="0", size_bytes=1)
    return Prepared(cell=Cell.from_path("toy/null/native/raw/null/cpu/b1t1"), artifact=artifact, key=key)


def outputs(folder: Path, num: int = 64) -> Path:
    path = folder / "made.npz"
    save_arrays(path, {"y": np.arange(num, dtype=np.float32)})
    return path


def test_outputs_of_a_part_are_kept_for_its_cell_and_its_number_of_samples(tmp_path: Path) -> None:
    value = cell(tmp_path)
    first_outputs.keep(value, PART, JUDGES, outputs(tmp_path))
    found = first_outputs.of(value, PART, JUDGES)
    assert found is not None
    assert load_arrays(found)["y"].tolist() == [*range(64)]
    assert first_outputs.of(cell(tmp_path, "other"), PART, JUDGES) is None
    assert first_outputs.of(value, PART, ("code", "another reference")) is None


def test_outputs_of_a_whole_split_and_large_outputs_are_not_kept(tmp_path: Path) -> None:
    first_outputs.keep(cell(tmp_path), Quality(fidelity="exact"), JUDGES, outputs(tmp_path))
    assert first_outputs.of(cell(tmp_path), Quality(fidelity="exact"), JUDGES) is None
    first_outputs.keep(cell(tmp_path), PART, JUDGES, outputs(tmp_path, first_outputs.MOST_BYTES // 4))
    assert first_outputs.of(cell(tmp_path), PART, JUDGES) is None


def test_a_changed_file_is_not_used(tmp_path: Path) -> None:
    first_outputs.keep(cell(tmp_path), PART, JUDGES, outputs(tmp_path))
    (file,) = cache.folder().glob("*/outputs.npz")
    file.write_bytes(file.read_bytes()[:-1])
    assert first_outputs.of(cell(tmp_path), PART, JUDGES) is None


def test_a_full_disk_keeps_nothing_and_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("shutil.copyfile", full)
    first_outputs.keep(cell(tmp_path), PART, JUDGES, outputs(tmp_path))
    assert first_outputs.of(cell(tmp_path), PART, JUDGES) is None
