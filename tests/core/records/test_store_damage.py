"""The store on damaged files: what cannot be read is told of and stays, and everything else counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.api.errors import BenchError, InputError
from bench.measure import machine
from bench.records import folder
from bench.records.store import CURRENT, Store, read_file
from support.stored import HEADER, KEY, PATH, QUALITY, append, launch


def launches(store: Store) -> list[str]:
    record = store.read(KEY)
    assert record is not None
    return [line.launch for line in record.launches]


@pytest.mark.parametrize("end", [b"\x00\x00\x00", b'{"kind":"launch"}}', b"[1"])
def test_end_that_was_never_a_line_stays_below_the_others(store: Store, file: Path, end: bytes) -> None:
    append(store, HEADER, launch("one"))
    before = file.read_bytes() + end
    file.write_bytes(before)
    append(store, launch("two"))
    assert file.read_bytes().startswith(before + b"\n")
    assert launches(store) == ["one", "two"]
    assert [damage.number for damage in read_file(file).damages] == [3]


@pytest.mark.parametrize(
    ("number", "text"), [(2, b"{broken"), (2, b"[1, 2]"), (3, b'{"no": "kind"}'), (3, b"\xff\xfe"), (3, b"")]
)
def test_damaged_line_is_left_where_it_is_and_told_of(store: Store, file: Path, number: int, text: bytes) -> None:
    append(store, HEADER, QUALITY, launch("one"), launch("two"))
    lines = file.read_bytes().splitlines()
    lines[number - 1] = text
    damaged = b"\n".join(lines) + b"\n"
    file.write_bytes(damaged)
    assert launches(store) == (["one", "two"] if number == 2 else ["two"])
    (damage,) = store.contents().damages
    assert str(damage).startswith(f"{file}, line {number}: ")
    append(store, launch("three"))
    assert file.read_bytes().startswith(damaged)
    assert launches(store)[-2:] == ["two", "three"]


def test_file_without_its_header_counts_again_below_a_new_header(store: Store, file: Path) -> None:
    append(store, launch("one"))
    assert store.read(KEY) is None
    assert [str(damage) for damage in store.contents().damages] == [
        f"{file}, line 1: it is no header; no line of the file counts"
    ]
    append(store, HEADER)
    assert launches(store) == ["one"]
    assert store.contents().damages == ()


def test_copied_file_is_not_taken_for_another_cell(store: Store, file: Path) -> None:
    append(store, HEADER, launch("one"))
    copy = file.with_name("copy.jsonl")
    copy.write_bytes(file.read_bytes())
    found = store.contents()
    assert set(found.records) == {KEY}
    assert [str(damage) for damage in found.damages] == [
        f"{copy}, line 1, key: '{KEY}', but the file is named copy.jsonl; no line of the file counts"
    ]


def test_records_of_another_machine_are_left_out(tmp_path: Path) -> None:
    here = {"processor": "One", "num_cores": 2, "memory_gib": 8}
    store = Store(tmp_path, machine.name_of(here))
    store.folder.mkdir()
    for key, facts in (("a", here), ("b", {**here, "num_cores": 4}), ("c", {**here, "num_cores": 4}), ("d", {})):
        store.append(key, replace(HEADER, key=key, machine=facts))
    assert set(store.contents().records) == {"a", "d"}
    assert [damage.field for damage in store.contents().damages] == ["machine", "machine"]
    renamed = Store(tmp_path, "renamed")
    store.folder.rename(renamed.folder)
    assert set(renamed.contents().records) == {"b", "c", "d"}


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_regular_file_is_neither_read_nor_written(store: Store, file: Path, kind: str) -> None:
    target = store.folder / "target"
    target.write_text("mine")
    if kind == "link":
        file.symlink_to(target)
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    with pytest.raises(BenchError, match=f"{file}( is a .*, not a regular file|: Is a directory)"):
        append(store, HEADER)
    assert store.contents().records == {}
    assert len(store.contents().damages) == 1
    lock = store.folder / ".lock"
    lock.symlink_to(target)
    with pytest.raises(InputError, match=f"{lock} is a symbolic link, not a regular file"), store.locked():
        pass
    assert target.read_text() == "mine"


@pytest.mark.parametrize("text", ["{", "[]", "null", "[" * 100_000, '"\\ud800"'])
def test_damaged_current_is_told_of_and_written_anew(store: Store, text: str) -> None:
    append(store, HEADER)
    path = store.folder / CURRENT
    path.write_text(text)
    found = store.contents()
    assert set(found.current) == {PATH}
    assert [damage.path for damage in found.damages] == [path]
    assert "`bench run` writes the file anew" in str(found.damages[0])
    store.point({PATH: KEY})
    assert store.contents().damages == ()


def test_damaged_entry_of_current_leaves_the_others(store: Store) -> None:
    (store.folder / CURRENT).write_text('{"a": 3, "b": "2"}')
    assert store.current() == {"b": "2"}
    assert [damage.field for damage in store.contents().damages] == ["a"]


def test_current_that_names_the_key_of_another_cell_is_passed_over(store: Store) -> None:
    append(store, HEADER)
    store.point({"toy/null/native/raw/null/cpu/b1t2": KEY})
    assert set(store.contents().current) == {PATH}


@pytest.mark.parametrize("name", [CURRENT, "peaks.json"])
def test_a_pipe_in_the_place_of_a_side_file_holds_nothing_up(store: Store, name: str) -> None:
    append(store, HEADER)
    os.mkfifo(store.folder / name)
    found = folder.stored(store)
    assert [row.cell for row in found.rows] == [PATH]
    (damage,) = found.damages
    assert "it is no regular file" in str(damage)


def test_a_baseline_that_cannot_be_read_is_told_of(store: Store, file: Path) -> None:
    append(store, HEADER)
    file.write_text("{}\n")
    with pytest.raises(InputError, match=f"no result for the baseline '{PATH}'.*{file}, line 1: .* `kind`"):
        folder.stored(store, baseline=PATH)
