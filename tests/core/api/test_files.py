"""Only regular files are read and written: a FIFO stops nobody, and no link is followed where something is written."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from bench.api import files
from bench.api.arrays import load_arrays
from bench.api.errors import InputError, StoreError
from bench.measure.roofline import Peaks
from bench.onnxfile import requests
from bench.onnxfile.costs import observed
from bench.onnxfile.edits import parts
from bench.onnxfile.file import foreign, lazy
from bench.pipeline.files import readable
from bench.records import peaks
from bench.records.lines import Reset
from bench.records.store import Store, write_atomically
from bench.tasks import adopt, dataset, formats
from support.small_models import make_model

pytestmark = pytest.mark.timeout(30)  # an open that waits for a writer would wait for ever


def fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


def listening(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # the names of sockets are short
        server.bind(path.name)
        os.chdir(here)
    return path


def device(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


SPECIAL = [(fifo, "a FIFO"), (listening, "a socket"), (device, "a device")]
READERS: dict[str, Callable[[Path], object]] = {
    "bytes": files.read_bytes,
    "text": files.read_text,
    "arrays": load_arrays,
    "data": dataset.check,
    "inputs": readable,
    "model": adopt.adopt,
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize(("make", "kind"), SPECIAL, ids=["fifo", "socket", "device"])
def test_special_file_is_refused_where_a_file_is_read(
    make: Callable[[Path], Path], kind: str, reader: Callable[[Path], object], tmp_path: Path
) -> None:
    path = make(tmp_path / "file.npz")
    with pytest.raises(InputError) as raised:
        reader(path)
    assert str(raised.value) == f"{path} is {kind}, not a regular file; name another path"


def test_folder_of_samples_with_a_fifo_is_refused(tmp_path: Path) -> None:
    fifo(tmp_path / "sample.npy")
    with pytest.raises(InputError, match=r"sample\.npy is a FIFO, not a regular file"):
        dataset.read(tmp_path)


@pytest.mark.parametrize(("make", "kind"), SPECIAL[:2], ids=["fifo", "socket"])
def test_external_data_that_are_no_regular_file_are_refused(
    make: Callable[[Path], Path], kind: str, tmp_path: Path
) -> None:
    model, data = tmp_path / "model.onnx", tmp_path / "weights.bin"
    onnx.save(make_model(), model, save_as_external_data=True, location=data.name, size_threshold=0)
    data.unlink()
    make(data)
    for request in (lambda: requests.weights(path=str(model)), lambda: foreign.inspect(model)):
        with pytest.raises(InputError) as raised:
            request()
        assert str(raised.value) == f"{data} is {kind}, not a regular file; name another path"
    with pytest.raises(InputError, match=f"is {kind}, not a regular file"):
        observed.run(path=str(model), shapes={}, inputs=None)


def test_folder_of_a_model_with_a_fifo_is_refused(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"x")
    (tmp_path / "variables").mkdir()
    assert formats.format_of(tmp_path) == "saved_model"
    fifo(tmp_path / "variables" / "variables.index")
    with pytest.raises(InputError, match=r"variables/variables\.index is a FIFO, not a regular file"):
        formats.format_of(tmp_path)


def test_regular_files_are_read_through_links(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("ä")
    (tmp_path / "link").symlink_to("file")
    assert files.read_bytes(tmp_path / "link") == "ä".encode()
    assert files.read_text(tmp_path / "link") == "ä"
    with pytest.raises(FileNotFoundError):
        files.read_bytes(tmp_path / "none")


def link(path: Path) -> Path:
    (path.parent / "target").write_text("kept")
    path.symlink_to("target")
    return path


def dangling(path: Path) -> Path:
    path.symlink_to("made")
    return path


def copy(path: Path) -> None:
    files.copy_whole(Path(__file__), path)


def save_part(path: Path) -> None:
    parts.save(onnx.ModelProto(), lazy.Stored(model=onnx.ModelProto(), path=None), path)


WRITERS = [lambda path: write_atomically(path, "new"), files.open_to_change, copy, save_part]


@pytest.mark.parametrize("write", WRITERS, ids=["write", "append", "copy", "graph"])
@pytest.mark.parametrize(
    ("make", "kind"),
    [(link, "a symbolic link"), (dangling, "a symbolic link"), *SPECIAL[:2]],
    ids=["link", "dangling", "fifo", "socket"],
)
def test_only_a_regular_file_is_written_or_replaced(
    make: Callable[[Path], Path], kind: str, write: Callable[[Path], object], tmp_path: Path
) -> None:
    path = make(tmp_path / "file")
    before, mode = sorted(tmp_path.iterdir()), path.lstat().st_mode
    with pytest.raises(InputError) as raised:
        write(path)
    assert str(raised.value) == f"{path} is {kind}, not a regular file; name another path"
    assert sorted(tmp_path.iterdir()) == before
    assert path.lstat().st_mode == mode
    assert (tmp_path / "target").read_text() == "kept" if make is link else True


def test_file_is_copied_beside_and_renamed(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    copy(path)
    assert path.read_bytes() == Path(__file__).read_bytes()
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(InputError, match="is a FIFO"):
        files.copy_whole(fifo(tmp_path / "fifo"), path)
    assert path.read_bytes() == Path(__file__).read_bytes()


def test_output_is_written_beside_and_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "folder" / "file"
    write_atomically(path, "old")
    other = os.open(path, os.O_RDONLY)
    write_atomically(path, b"new")
    assert os.read(other, 10) == b"old", "a reader of the earlier file goes on with it"
    os.close(other)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        write_atomically(path, "newer")
    assert path.read_text() == "new"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("make", [fifo, listening, link], ids=["fifo", "socket", "link"])
def test_lock_and_results_are_regular_files(make: Callable[[Path], Path], tmp_path: Path) -> None:
    store = Store(tmp_path, "machine")
    store.folder.mkdir()
    make(store.folder / ".lock")
    with pytest.raises(InputError, match=r"\.lock is a .*, not a regular file"), store.locked():
        pass
    make(store.folder / "key.jsonl")
    with pytest.raises(InputError, match=r"key\.jsonl is a .*, not a regular file"):
        store.append("key", Reset())


@pytest.mark.parametrize("name", ["key.jsonl", "current.json", "peaks.json"])
def test_results_with_a_fifo_are_told(name: str, tmp_path: Path) -> None:
    store = Store(tmp_path, "machine")
    store.folder.mkdir()
    fifo(store.folder / name)
    assert store.current_records() == {}
    _, damage = peaks.examined(store.folder)
    assert [it.path.name for it in (*store.contents().damages, *filter(None, [damage]))] == [name]
    if name == "peaks.json":
        with pytest.raises(InputError, match="is a FIFO, not a regular file"):
            peaks.keep(store.folder, 1, Peaks(macs_per_s={}, libraries={}, bytes_per_s=1.0))
