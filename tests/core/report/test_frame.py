"""Rows as a data frame and as Parquet."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

import bench
from bench.api.errors import InputError
from bench.records import assemble
from bench.records.rows import COLUMNS
from bench.report import frame
from support import deferred
from support import page_records as made

pd = deferred.importorskip("pandas")

HALVE = made.HALVE


def rows() -> list[assemble.Row]:
    return assemble.rows(made.records())


def test_types_do_not_depend_on_values() -> None:
    found = frame.frame(rows())

    assert tuple(found.columns) == tuple(COLUMNS)
    assert len(found) == 5
    assert str(found["macs"].dtype) == str(found["batch"].dtype) == "Int64"  # nothing has MACs here
    assert str(found["ratio"].dtype) == "float64"
    assert str(found["verdict"].dtype) == "string"
    assert frame.frame([])["batch"].dtype == found["batch"].dtype


def test_what_was_not_measured_is_missing() -> None:
    found = frame.frame(rows()).set_index("cell")

    assert found.loc[HALVE, "ratio"] == pytest.approx(0.5, rel=1e-3)
    assert found.loc[HALVE, "num_launches"] == 2
    failed = found[found.status == "failed"]
    assert len(failed) == 1
    assert failed[["latency_p50_ns", "size_bytes", "fidelity"]].isna().all(axis=None)
    assert found.groupby("task").latency_p50_ns.min()["toy"] == found.latency_p50_ns.min()


def test_a_folder_of_results_is_loaded(tmp_path: Path) -> None:
    folder = made.store(tmp_path)

    found = bench.load_results(tmp_path)
    over = bench.load_results(str(folder), baseline=HALVE).set_index("cell")

    assert set(found.cell) == {path for path in made.records() if path.startswith("toy")}
    assert over.loc[HALVE, "ratio"] == 1.0
    assert over.loc[made.PRUNE, "ratio"] == pytest.approx(3.0, rel=1e-3)
    with pytest.raises(InputError, match="no such folder"):
        bench.load_results(tmp_path / "nowhere")


def test_parquet_keeps_types_and_values() -> None:
    pytest.importorskip("pyarrow")
    columns = ("cell", "macs", "latency_p50_ns", "num_launches")

    found = pd.read_parquet(io.BytesIO(frame.parquet(rows(), columns)))

    pd.testing.assert_frame_equal(found, frame.frame(rows(), columns))


def test_without_pandas_the_fix_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(InputError, match=r"needs pandas, which is not installed \(pip install 'inferometer\[data\]'\)"):
        frame.frame(rows())
