"""The cache that is kept between sessions of tests holds entries alone, and no more than it may."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.api import cache
from support import session_cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with three entries of 100 bytes, the first the oldest."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    for age, key in enumerate(("third", "second", "first")):
        path, _ = cache.obtain(key, "file", lambda target: {"size": target.write_bytes(bytes(100))})
        os.utime(path.parent / cache.ENTRY, (1000 - age, 1000 - age))
    return tmp_path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {session_cache.LOCK}


def test_entries_are_kept_and_what_is_named_by_a_path_is_not(folder: Path) -> None:
    (folder / "tasks" / "mine").mkdir(parents=True)
    (folder / "torchinductor" / "kernel").mkdir(parents=True)
    (folder / "toy-null-native-raw-lock").touch()
    (folder / "making-half").mkdir()
    session_cache.trim(folder)
    assert names(folder) == {"first", "second", "third", "torchinductor"}


def test_the_oldest_entries_go(folder: Path) -> None:
    size_bytes = sum(path.stat().st_size for path in (folder / "first").iterdir())
    session_cache.trim(folder, 3 * size_bytes + 20)
    assert names(folder) == {"first", "second", "third"}
    session_cache.trim(folder, 2 * size_bytes + 20)
    assert names(folder) == {"second", "third"}
    session_cache.trim(folder, 0)
    assert names(folder) == set()


def test_nothing_goes_that_another_session_may_be_using(folder: Path) -> None:
    with session_cache.used(folder), session_cache.used(folder):
        session_cache.trim(folder, 0)
    assert names(folder) == {"first", "second", "third"}
    session_cache.trim(folder, 0)
    assert names(folder) == set()


def test_a_folder_that_is_not_there_yet_is_made(tmp_path: Path) -> None:
    session_cache.trim(tmp_path / "a" / "b")
    with session_cache.used(tmp_path / "c" / "d"):
        assert names(tmp_path / "c" / "d") == set()
