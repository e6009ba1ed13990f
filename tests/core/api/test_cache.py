"""The cache: an entry is made once, checked at each use, and never left incomplete."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.api import cache

KEY, FILE = "0123abcd", "artifact.bin"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Maker:
    """Writes another content each time, as an exporter that stores the date would."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.num_calls = 0
        self._before = before

    def __call__(self, target: Path) -> dict[str, Any]:
        self._before()
        self.num_calls += 1
        target.write_text(f"content {self.num_calls}")
        return {"format": "bin", "number": self.num_calls}


def left_over(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("making-*")]


def test_made_once(folder: Path) -> None:
    make = Maker()
    path, entry = cache.obtain(KEY, FILE, make)
    assert path == folder / KEY / FILE
    assert path.read_text() == "content 1"
    assert entry == {"format": "bin", "number": 1, "sha256": cache.file_digest(path), "size_bytes": 9}
    assert cache.obtain(KEY, FILE, make) == (path, entry)
    assert make.num_calls == 1
    assert left_over(folder) == []


def test_another_key_is_another_file() -> None:
    make = Maker()
    first, _ = cache.obtain(KEY, FILE, make)
    second, _ = cache.obtain("another", FILE, make)
    assert (first.read_text(), second.read_text()) == ("content 1", "content 2")


@pytest.mark.parametrize(
    "damage",
    [
        lambda place: (place / FILE).write_text("content X"),  # the same length
        lambda place: (place / FILE).write_text(""),
        lambda place: (place / FILE).unlink(),
        lambda place: (place / cache.ENTRY).unlink(),
        lambda place: (place / cache.ENTRY).write_text('{"sha256": "'),
        lambda place: (place / cache.ENTRY).write_text("[]"),
        lambda place: (place / cache.ENTRY).write_text("{}"),
        lambda place: (place / cache.ENTRY).write_bytes(b"\xff\xfe"),
    ],
    ids=["changed", "emptied", "lost", "no entry", "cut entry", "list", "no checksum", "not text"],
)
def test_corrupt_entry_is_made_again(folder: Path, damage: Callable[[Path], Any]) -> None:
    make = Maker()
    cache.obtain(KEY, FILE, make)
    damage(folder / KEY)
    path, entry = cache.obtain(KEY, FILE, make)
    assert path.read_text() == "content 2"
    assert entry["sha256"] == cache.file_digest(path)
    assert cache.obtain(KEY, FILE, make) == (path, entry)
    assert make.num_calls == 2


def test_failure_leaves_nothing_behind(folder: Path) -> None:
    def fail(target: Path) -> dict[str, Any]:
        target.write_text("half")
        raise ValueError("as expected")

    with pytest.raises(ValueError, match="as expected"):
        cache.obtain(KEY, FILE, fail)
    assert list(folder.iterdir()) == []
    assert cache.obtain(KEY, FILE, Maker())[0].read_text() == "content 1"


def test_interrupt_leaves_nothing_behind(folder: Path) -> None:
    def interrupt(target: Path) -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.obtain(KEY, FILE, interrupt)
    assert list(folder.iterdir()) == []


def test_maker_that_writes_nothing_leaves_nothing_behind(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cache.obtain(KEY, FILE, lambda target: {})
    assert list(folder.iterdir()) == []


def test_race_keeps_what_the_other_process_made(folder: Path) -> None:
    """It may be in use already, and the two need not be the same bytes; the entry returned is that of the file."""
    other = Maker()
    make = Maker(before=lambda: cache.obtain(KEY, FILE, other) and None)
    other.num_calls = 7
    path, entry = cache.obtain(KEY, FILE, make)
    assert (make.num_calls, other.num_calls) == (1, 8)
    assert path.read_text() == "content 8"
    assert entry["number"] == 8
    assert entry["sha256"] == cache.file_digest(path)
    assert left_over(folder) == []


def test_race_in_the_last_moment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process is done between our last look and our rename: the system refuses to replace a full folder."""
    other, rename = Maker(), Path.rename

    def late(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        cache.obtain(KEY, FILE, other)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", late)
    other.num_calls = 7
    path, entry = cache.obtain(KEY, FILE, Maker())
    assert path.read_text() == "content 8"
    assert entry["sha256"] == cache.file_digest(path)
    assert left_over(folder) == []


def test_another_process_that_ends_while_leftovers_are_looked_for_is_no_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = folder / "making-gone"  # listed, and moved to its place before it is looked at
    whole = Path.glob
    monkeypatch.setattr(Path, "glob", lambda path, pattern: [gone, *whole(path, pattern)])
    path, _ = cache.obtain(KEY, FILE, Maker())
    assert path.is_file()


def test_digest_is_of_the_value_not_of_its_order() -> None:
    assert cache.digest({"a": 1, "b": [2]}) == cache.digest({"b": [2], "a": 1})
    assert cache.digest({"a": 1}) != cache.digest({"a": 2})
    assert cache.digest([1, 2]) != cache.digest([2, 1])


def test_folder(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.folder() == folder
    monkeypatch.delenv("BENCH_CACHE")
    monkeypatch.chdir(tmp_path)
    assert cache.folder() == tmp_path / ".cache" / "bench"


def test_entry_is_readable_json(folder: Path) -> None:
    cache.obtain(KEY, FILE, Maker())
    assert json.loads((folder / KEY / cache.ENTRY).read_text())["size_bytes"] == 9


def test_digest_of_a_folder_depends_on_where_files_are(tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
    (tmp_path / "train" / "a").write_text("same")
    before = cache.digest_folder(tmp_path)
    (tmp_path / "train" / "a").rename(tmp_path / "test" / "a")
    assert cache.digest_folder(tmp_path) != before


def test_digest_of_files_depends_on_names_and_contents_not_on_order(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("1")
    two.write_text("2")
    digest = cache.digest_files([one, two])
    assert digest == cache.digest_files([two, one])
    two.write_text("3")
    assert cache.digest_files([one, two]) != digest
    two.write_text("2")
    assert cache.digest_files([one, two.rename(tmp_path / "three")]) != digest


def test_a_file_that_stays_is_hashed_once_and_again_when_it_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Maker()
    path, _ = cache.obtain(KEY, FILE, make)
    monkeypatch.setattr(cache, "SETTLED_S", -1.0)  # the file counts as old
    hashed: list[Path] = []
    digest = cache.file_digest
    monkeypatch.setattr(cache, "file_digest", lambda path: hashed.append(path) or digest(path))
    for _ in range(3):
        cache.obtain(KEY, FILE, make)
    assert (hashed, make.num_calls) == ([path], 1)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    cache.obtain(KEY, FILE, make)
    assert make.num_calls == 2, "what changed is not the entry's file"
