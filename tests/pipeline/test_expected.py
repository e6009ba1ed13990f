"""Earlier sweeps order the work: what is read of them, and what is done with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.api import loading
from bench.measure.comparison import CELL
from bench.pipeline import expected
from bench.records.store import Record
from support import records as made

BASELINE, FAST, NEW = (f"toy/torch/native/{variant}/pytorch/cpu/b1t1" for variant in ("raw", "fast", "new"))


def launched(path: str, *medians_ns: int) -> Record:
    blocks = enumerate(medians_ns)
    return made.record(path, *(made.launch(f"block {number}", CELL, ns, reference=BASELINE) for number, ns in blocks))


def test_own_launches_count_before_published_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / expected.PUBLISHED
    table.parent.mkdir(parents=True)
    table.write_text(f"cell,ratio\n{FAST},0.9\n{NEW},1.5\n{BASELINE},\n")
    monkeypatch.setattr(loading, "checkout", lambda: tmp_path)
    records = {BASELINE: launched(BASELINE, 1000), FAST: launched(FAST, 400, 500, 600)}
    assert expected.ratios(records) == pytest.approx({BASELINE: 1.0, FAST: 0.5, NEW: 1.5}, rel=0.01)


@pytest.mark.parametrize("text", ["", "cell\nx\n", "cell,ratio\nx,fast\n", "cell,ratio\nx,nan\n", "\x00,\x00\n\x00"])
def test_table_that_cannot_be_read_tells_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.csv").write_text(text)
    assert expected.published(tmp_path / "table.csv") == {}


def test_installed_package_has_no_published_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "checkout", lambda: None)
    assert expected.ratios({}) == {}


def test_published_table_is_read() -> None:
    checkout = loading.checkout()
    assert checkout is not None
    found = expected.published(checkout / expected.PUBLISHED)
    assert len(found) > 100
    assert found["crnn/torch/native/raw/pytorch/cpu/b1t1"] == 1.0
