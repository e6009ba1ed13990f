"""An empty folder of results, and the file of the cell that `support.stored` makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.records.store import Store
from support.stored import KEY


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "machine").mkdir()
    return Store(tmp_path, "machine")


@pytest.fixture
def file(store: Store) -> Path:
    return store.folder / f"{KEY}.jsonl"
