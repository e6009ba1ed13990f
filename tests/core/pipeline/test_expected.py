"""Earlier sweeps order the work: what is read of them, and what is done with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.api import loading
from bench.measure.comparison import CELL
from bench.pipeline import expectations
from bench.pipeline.expectations import Expected
from bench.records.store import Record, Store
from support import records as made

BASELINE, FAST, NEW, BROKEN = (
    f"toy/torch/native/{variant}/pytorch/cpu/b1t1" for variant in ("raw", "fast", "new", "broken")
)


class Stored(Store):
    """A store of records by cell path."""

    def __init__(self, records: dict[str, Record]) -> None:
        self._records = records

    def current(self) -> dict[str, str]:
        return {path: path for path in self._records}

    def read(self, key: str) -> Record | None:
        return self._records[key]


def launched(path: str, *medians_ns: int) -> Record:
    blocks = enumerate(medians_ns)
    return made.record(path, *(made.launch(f"block {number}", CELL, ns, reference=BASELINE) for number, ns in blocks))


def test_own_launches_count_before_published_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / expectations.PUBLISHED
    table.parent.mkdir(parents=True)
    table.write_text(f"cell,ratio\n{FAST},0.9\n{NEW},1.5\n{BASELINE},\n{BROKEN},0.7\n")
    monkeypatch.setattr(loading, "checkout", lambda: tmp_path)
    stored = Stored({BASELINE: launched(BASELINE, 1000), FAST: launched(FAST, 400, 500, 600), BROKEN: launched(BROKEN)})
    ratios = [Expected(stored).ratio(path) for path in (BASELINE, FAST, NEW, BROKEN, "no cell")]
    assert ratios == pytest.approx([1.0, 0.5, 1.5, 0.7, 0.0], rel=0.01)


def test_a_cell_of_a_task_that_is_not_published_is_expected_to_be_as_that_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The median of three tasks; where the cell itself is published, its own ratio counts."""
    table = tmp_path / expectations.PUBLISHED
    table.parent.mkdir(parents=True)
    rest = "torch/native/fast/pytorch/cpu/b1t1"
    table.write_text(f"cell,ratio\na/{rest},0.5\nb/{rest},0.7\nc/{rest},0.6\n")
    monkeypatch.setattr(loading, "checkout", lambda: tmp_path)
    found = Expected(Stored({}))
    assert (found.ratio(f"new/{rest}"), found.published(f"new/{rest}"), found.ratio(f"b/{rest}")) == (0.6, 0.0, 0.7)
    assert found.of_other_tasks("new/torch/native/slow/pytorch/cpu/b1t1") == 0.0


def test_a_record_that_cannot_be_read_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "checkout", lambda: None)
    store = Store(tmp_path, "machine")
    store.point({FAST: "0" * 24})
    (store.folder / f"{'0' * 24}.jsonl").mkdir()
    assert Expected(store).own(FAST) == 0


def test_a_cell_that_runs_the_graph_of_another_is_expected_to_be_as_fast(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(f"cell,ratio,same_as\n{NEW},,{FAST}\n{FAST},0.5,\n{BROKEN},,gone\n")
    assert expectations.published(tmp_path / "table.csv") == {FAST: 0.5, NEW: 0.5}


@pytest.mark.parametrize("text", ["", "cell\nx\n", "cell,ratio\nx,fast\n", "cell,ratio\nx,nan\n", "\x00,\x00\n\x00"])
def test_table_that_cannot_be_read_tells_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.csv").write_text(text)
    assert expectations.published(tmp_path / "table.csv") == {}


def test_installed_package_has_no_published_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "checkout", lambda: None)
    assert Expected(Stored({})).ratio("crnn/torch/native/raw/pytorch/cpu/b1t1") == 0


def test_published_table_is_read() -> None:
    checkout = loading.checkout()
    assert checkout is not None
    found = expectations.published(checkout / expectations.PUBLISHED)
    assert len(found) > 100
    assert found["crnn/torch/native/raw/pytorch/cpu/b1t1"] == 1.0
