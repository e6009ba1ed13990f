"""Fixtures of the unit tests: a plugin folder and a cache of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.plugins import catalog


@pytest.fixture
def plugin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder that comes first on the search path; the working folder and the cache are empty, too."""
    folder, work = tmp_path / "plugins", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("BENCH_PATH", str(folder))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    catalog.forget()
    yield folder
    catalog.forget()
