"""The store: every appended line is read again, whatever cut the last line short."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import asdict, replace

from bench.api.cell import Cell
from bench.api.errors import InputError, StoreError
from bench.measure.launch import Launch
from bench.records.lines import Failure, Line, Reset, ThreadLaunch
from bench.records.store import Store, read_file, write_atomically
from support.stored import HEADER, KEY, PATH, QUALITY, append, launch

PUBLISHED = Path(__file__).parents[3] / "results" / "reference"
FAILURE = Failure(stage="open", reason="it broke")


def read_lines(path: Path) -> tuple[Line, ...]:
    found = read_file(path)
    assert found.damages == ()
    return found.lines


def launches(store: Store) -> list[str]:
    record = store.read(KEY)
    assert record is not None
    return [line.launch for line in record.launches]


def test_lines_come_back(store: Store, file: Path) -> None:
    append(store, HEADER, QUALITY, launch("one"), launch("two"))
    record = store.read(KEY)
    assert record is not None
    assert (record.key, record.cell) == (KEY, Cell.from_path(PATH))
    assert record.quality is not None
    assert record.quality.fidelity == "exact"
    assert [line.launch for line in record.launches] == ["one", "two"]
    assert record.launches[0].steady_ns == ((1, 2), (3,))
    assert record.failure is None
    assert all(line.time.endswith("+00:00") for line in read_lines(file))
    assert file.read_text().count("\n") == 4


def test_nothing_stored(store: Store) -> None:
    assert store.read(KEY) is None
    assert store.read_all() == {}
    assert store.current() == {}
    assert store.current_records() == {}


@pytest.mark.parametrize("cut", [2, 5, 60], ids=lambda cut: f"{cut} bytes")
def test_cut_last_line_is_left_out_and_healed_by_the_next(store: Store, file: Path, cut: int) -> None:
    append(store, HEADER, QUALITY, launch("one"), launch("two"))
    file.write_bytes(file.read_bytes()[:-cut])
    assert launches(store) == ["one"]
    append(store, launch("three"))
    assert launches(store) == ["one", "three"]
    assert file.read_bytes().endswith(b"\n")
    assert len(read_lines(file)) == 4


def test_cut_is_healed_however_long_the_line(store: Store, file: Path) -> None:
    """Longer than what is looked through at a time."""
    append(store, HEADER, launch("one"), replace(launch("two"), steady_ns=(tuple(range(40_000)),)))
    assert file.stat().st_size > 3 * 65536
    file.write_bytes(file.read_bytes()[:-2])
    append(store, launch("three"))
    assert launches(store) == ["one", "three"]


def test_last_line_that_only_lacks_its_newline_stays(store: Store, file: Path) -> None:
    append(store, HEADER, launch("one"), launch("two"))
    file.write_bytes(file.read_bytes()[:-1])
    assert launches(store) == ["one", "two"]
    append(store, launch("three"))
    assert launches(store) == ["one", "two", "three"]
    assert len(read_lines(file)) == 4


def test_cut_header_is_no_record_and_healed(store: Store, file: Path) -> None:
    append(store, HEADER)
    file.write_bytes(file.read_bytes()[:-10])
    assert store.read(KEY) is None
    append(store, HEADER, launch("one"))
    assert launches(store) == ["one"]


def test_unknown_fields_go_along_where_a_quality_is_copied(store: Store, file: Path) -> None:
    append(store, HEADER)
    file.write_bytes(file.read_bytes() + b'{"kind":"quality","fidelity":"close","from_the_future":[1]}\n')
    record = store.read(KEY)
    assert record is not None
    assert record.quality is not None
    store.append("copy", replace(HEADER, key="copy"))
    store.append("copy", replace(record.quality, reason="changed"))
    copied = json.loads((store.folder / "copy.jsonl").read_text().splitlines()[1])
    assert copied["from_the_future"] == [1]
    assert "unknown" not in copied
    assert copied["reason"] == "changed"


def test_unknown_fields_within_objects_go_along_where_a_quality_is_copied(store: Store, file: Path) -> None:
    append(store, HEADER)
    objects = {
        "cost": {"macs": 1, "weight_bytes": 2, "joules": {"idle": 3}},
        "placement": {"CPU": {"nodes": 1, "joules": 4}},
        "lost": {"num_samples": 10, "score": 1.0, "most": 1.0, "points": [], "by": "class"},
    }
    newer = {"kind": "quality", "fidelity": "close", **objects}
    file.write_bytes(file.read_bytes() + json.dumps(newer).encode() + b"\n")
    record = store.read(KEY)
    assert record is not None
    assert record.quality is not None
    store.append("copy", replace(HEADER, key="copy"))
    store.append("copy", replace(record.quality, lost="it is not comparable"))
    copied = json.loads((store.folder / "copy.jsonl").read_text().splitlines()[1])
    assert copied["cost"] == objects["cost"]
    assert copied["placement"]["CPU"]["joules"] == 4
    assert copied["lost"] == "it is not comparable"


def test_stored_lines_are_never_written_anew(store: Store, file: Path) -> None:
    """Whatever a newer version wrote stays as it is, byte for byte, with every line and pointer that comes after it."""
    append(store, HEADER, QUALITY, launch("one"))
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    lines[2]["memory"]["from_the_future"] = [2]
    file.write_bytes(b"".join(json.dumps({**line, "new": {"a": 1}}).encode() + b"\n" for line in lines))
    before = file.read_bytes()
    append(store, Reset(), launch("two"), QUALITY, FAILURE)
    store.point({HEADER.cell: KEY})
    with store.locked():
        store.contents()
    assert file.read_bytes().startswith(before)
    assert launches(store) == ["two"]


def test_unicode_line_separators_in_a_reason_do_not_split_a_line(store: Store) -> None:
    reason = "a\u2028b\x85c\x1cd\re"
    append(store, HEADER, replace(FAILURE, reason=reason))
    record = store.read(KEY)
    assert record is not None
    assert record.failure is not None
    assert record.failure.reason == reason


def test_launch_appended_twice_stands_once(store: Store) -> None:
    append(store, HEADER, launch("one"), launch("two"), launch("one"))
    assert launches(store) == ["one", "two"]


def test_superseded_launch_stays_in_the_file_and_counts_nowhere(store: Store, file: Path) -> None:
    superseded = replace(launch("two"), superseded=True)
    append(store, HEADER, launch("one"), superseded, ThreadLaunch(**asdict(superseded)))
    assert launches(store) == ["one"]
    record = store.read(KEY)
    assert record is not None
    assert record.thread_launches == ()
    assert [line.launch for line in read_lines(file) if isinstance(line, Launch)] == ["one", "two", "two"]


def test_reset_of_one_kind_of_launches_leaves_the_other(store: Store) -> None:
    beside = ThreadLaunch(**asdict(launch("two")))
    append(store, HEADER, QUALITY, launch("one"), beside, Reset(launches="thread_launch"))
    record = store.read(KEY)
    assert record is not None
    assert [line.launch for line in record.launches] == ["one"]
    assert record.thread_launches == ()


def test_reset_starts_anew_and_keeps_the_lines(store: Store, file: Path) -> None:
    append(store, HEADER, QUALITY, launch("one"), FAILURE, Reset())
    record = store.read(KEY)
    assert record is not None
    assert record.quality is not None  # it may have been judged anew just before
    assert (record.launches, record.failure) == ((), None)
    append(store, launch("two"))
    assert launches(store) == ["two"]
    assert len(read_lines(file)) == 6


@pytest.mark.parametrize("success", [QUALITY, launch("one")], ids=["quality", "launch"])
def test_success_clears_a_failure(store: Store, success: Line) -> None:
    append(store, HEADER, QUALITY, FAILURE)
    record = store.read(KEY)
    assert record is not None
    assert record.failure is not None
    assert record.failure.reason == "it broke"
    append(store, success)
    record = store.read(KEY)
    assert record is not None
    assert record.failure is None


def test_failure_keeps_what_was_measured_before(store: Store) -> None:
    append(store, HEADER, QUALITY, launch("one"), FAILURE)
    record = store.read(KEY)
    assert record is not None
    assert record.failure is not None
    assert record.quality is not None
    assert launches(store) == ["one"]


def test_lines_of_a_kind_unknown_here_are_passed_over(store: Store, file: Path) -> None:
    append(store, HEADER)
    file.write_bytes(file.read_bytes() + b'{"kind":"from the future","launch":1}\n')
    append(store, launch("one"))
    assert launches(store) == ["one"]


def test_fields_unknown_here_are_passed_over(store: Store, file: Path) -> None:
    append(store, HEADER)
    file.write_bytes(file.read_bytes() + b'{"kind":"quality","fidelity":"close","from_the_future":[1]}\n')
    record = store.read(KEY)
    assert record is not None
    assert record.quality is not None
    assert record.quality.fidelity == "close"


def test_published_lines_are_written_as_they_were_read() -> None:
    """Nothing of a stored line is lost or spelt otherwise; fields that are newer than the line have a default."""
    files = sorted(PUBLISHED.glob("*/*.jsonl"))
    assert files
    for path in files:
        texts = path.read_text().splitlines()
        for line, text in zip(read_lines(path), texts, strict=True):
            read, written = json.loads(text), msgspec.to_builtins(line)
            kept = {name: value for name, value in written.items() if name in read}
            assert json.dumps(kept, separators=(",", ":")) == text


def test_line_that_is_not_json_is_refused_and_nothing_is_written(store: Store, file: Path) -> None:
    append(store, HEADER)
    before = file.read_bytes()
    with pytest.raises(ValueError, match="JSON"):
        append(store, replace(QUALITY, loss=float("nan")))
    assert file.read_bytes() == before


def test_disk_full_in_the_middle_of_a_line(store: Store, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(store, HEADER, launch("one"))
    before, write = file.read_bytes(), os.pwrite
    calls = []

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:10], offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(StoreError, match=f"cannot write {file}: No space left on device .free some space"):
        append(store, launch("two"))
    assert calls[1] == calls[0] - 10
    assert file.read_bytes() == before
    monkeypatch.undo()
    append(store, launch("three"))
    assert launches(store) == ["one", "three"]


def test_line_is_on_the_disk_when_append_returns(store: Store, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    append(store, HEADER)
    assert synced == [file.stat().st_size, file.parent.stat().st_size]  # a new file's name, too
    append(store, QUALITY)
    assert synced[2:] == [file.stat().st_size]


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file, not a folder")
    with pytest.raises(StoreError, match=f"cannot write to {tmp_path}/results/machine"):
        Store(tmp_path / "results", "machine").locked().__enter__()
    with pytest.raises(StoreError, match=f"cannot write {tmp_path}/results/machine/{KEY}.jsonl"):
        Store(tmp_path / "results", "machine").append(KEY, HEADER)


HOLD = """
import sys
from pathlib import Path
from bench.records.store import Store
with Store(Path(sys.argv[1]), "machine").locked():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_lock_held_by_another_process(store: Store, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(StoreError, match=f"another `bench` is writing to {store.folder}; wait for it to end"),
            store.locked(),
        ):
            pass
        holder.kill()  # even so its lock is gone
        holder.wait()
    with store.locked():
        pass
    with store.locked():
        pass


def test_point_and_current(store: Store) -> None:
    store.point({"a": "1", "b": "2"})
    store.point({"b": "3", "c": "4"})
    assert store.current() == {"a": "1", "b": "3", "c": "4"}


def test_current_record_is_the_one_said_or_else_the_latest(store: Store, file: Path) -> None:
    def put(key: str, time: str, path: str = PATH) -> None:
        header = msgspec.to_builtins(replace(HEADER, key=key, cell=path, time=time))
        (store.folder / f"{key}.jsonl").write_text(json.dumps(header) + "\n")

    put("old", "2024-01-01")
    put("new", "2025-01-01")
    put("middle", "2024-06-01")
    put("other", "2020-01-01", PATH.replace("b1t1", "b1t2"))
    keys = {path: record.key for path, record in store.current_records().items()}
    assert keys == {PATH: "new", PATH.replace("b1t1", "b1t2"): "other"}
    store.point({PATH: "old", "gone/null/native/raw/null/cpu/b1t1": "lost"})
    keys = {path: record.key for path, record in store.current_records().items()}
    assert keys == {PATH: "old", PATH.replace("b1t1", "b1t2"): "other"}
    assert set(store.read_all()) == {"old", "new", "middle", "other"}


def test_atomic_write_leaves_the_old_file_on_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new folder" / "table.md"
    write_atomically(path, "old")
    assert path.read_text() == "old"

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StoreError, match="No space left on device"):
            write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [item.name for item in path.parent.iterdir()] == ["table.md"]
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o644


def test_atomic_write_over_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path} is a folder, not a regular file"):
        write_atomically(tmp_path, "text")
    assert list(tmp_path.iterdir()) == []
