"""Arrays in `.npz` and `.npy` files: what a header states is compared with the file before memory is taken for it."""

from __future__ import annotations

import contextlib
import io
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bench.api import array_files
from bench.api.errors import InputError

PLAIN = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"


def npy(header: str, content: bytes = b"") -> bytes:
    """A `.npy` file with this header and these elements."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def npz(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize("store", [np.savez, np.savez_compressed])
def test_arrays_come_back_as_numpy_wrote_them(store: object, tmp_path: Path) -> None:
    arrays = {
        "floats": np.arange(6.0).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "words": np.array(["ab", "c", "\N{SNOWMAN}"]),
        "bytes": np.array([b"ab", b"c"]),
        "one": np.array(True),
        "none": np.zeros((0, 3)),
        "big": np.arange(3, dtype=">i4"),
        "complex": np.array([1j]),
    }
    store(tmp_path / "a.npz", **arrays)  # type: ignore[operator]
    found = array_files.load_npz(tmp_path / "a.npz")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert found[name].flags.writeable
        np.save(tmp_path / "a.npy", array)
        np.testing.assert_array_equal(array_files.load_npy(tmp_path / "a.npy"), array)


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("'descr': '<U0', 'shape': (99999999999, 64)", r"6,399,999,999,936 elements of <U0, which take no bytes"),
        ("'descr': '|S0', 'shape': (7,)", "7 elements of .S0, which take no bytes"),
        (
            "'descr': '<f4', 'shape': (1180591620717411303424, 64)",
            r"damaged: it says 1180\d+x64 of <f4, .* and 8 follow",
        ),
        ("'descr': '<f4', 'shape': (3,)", "damaged: it says 3 of <f4, 12 bytes, and 8 follow"),
        ("'descr': '<f4', 'shape': (1,)", "damaged: it says 1 of <f4, 4 bytes, and 8 follow"),
        ("'descr': '<f4', 'shape': (-2,)", "has the shape -2; up to 32 sizes of 0 and more are read"),
        (f"'descr': '<f4', 'shape': ({'1, ' * 40})", "up to 32 sizes of 0 and more are read"),
        ("'descr': '<f4', 'shape': (99999999999, 0)", r"holds nothing and has the shape 99999999999x0"),
        ("'descr': '<f4', 'shape': (2.5,)", "is no plain array, as numpy.save writes it: its header cannot be read"),
        ("'descr': '<f4', 'shape': (2,), 'more': 1", "its header cannot be read"),
        ("'descr': '<f4', 'shape': (2,", "its header cannot be read"),
        ("'descr': '<f4', 'shape': '''(2,)", "its header cannot be read"),
        (f"'descr': '<f4', 'shape': {'(' * 300}2{')' * 300}", "its header cannot be read"),
        ("'descr': '<f999999999999', 'shape': (2,)", "its header cannot be read"),
        ("'descr': [('a', '<f4')], 'shape': (2,)", "holds elements of the type .V4; save numbers, bools or texts"),
        ("'descr': ('<f4', (2,)), 'shape': (1,)", "; save numbers, bools or texts|its header cannot be read"),
        ("'descr': '<M8[s]', 'shape': (1,)", "holds elements of the type <M8"),
        ("'descr': '|O', 'shape': (1,)", "holds Python objects; save numbers, bools or texts"),
    ],
)
@pytest.mark.parametrize("is_archive", [False, True], ids=["npy", "npz"])
def test_a_header_that_does_not_fit_is_refused_at_once(
    header: str, says: str, is_archive: bool, tmp_path: Path
) -> None:
    order = "" if "shape': (2," in header and header.endswith("(2,") else ", 'fortran_order': False"
    content = npy(f"{{{header}{order}}}", b"\0" * 8)
    path = tmp_path / ("a.npz" if is_archive else "a.npy")
    begin = time.process_time()
    if is_archive:
        npz(path, x=content)
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match=says) as raised:
        (array_files.load_npz if is_archive else array_files.load_npy)(path)
    assert str(path) in str(raised.value)
    assert not is_archive or "its array 'x'" in str(raised.value)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("store", [np.savez, np.savez_compressed, np.save])
@pytest.mark.parametrize("dtype", ["f4", ">i2", "S3"])
def test_an_array_is_read_in_little_more_memory_than_its_own(store: object, dtype: str, tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 100, 3 * 2**22 + 5).astype(np.uint8).view()
    array = array[: array.size // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize].view(dtype)
    is_archive = store is not np.save
    path = tmp_path / ("a.npz" if is_archive else "a.npy")
    store(path, array)  # type: ignore[operator]
    tracemalloc.start()
    try:
        found = array_files.load_npz(path)["arr_0"] if is_archive else array_files.load_npy(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(found, array)
    assert peak < array.nbytes + 6 * array_files.READ_BYTES


@pytest.mark.parametrize("code", [0x110000, 0xD800, 0xFFFFFFFF])
def test_texts_of_characters_that_do_not_exist_are_refused(code: int, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(npy(PLAIN.replace("<f4", "<U1"), struct.pack("<II", 65, code)))
    with pytest.raises(InputError, match=r"a\.npy holds texts with characters that do not exist"):
        array_files.load_npy(tmp_path / "a.npy")


def test_members_that_are_no_arrays_are_named(tmp_path: Path) -> None:
    whole = npy(PLAIN, b"\0" * 8)
    path = tmp_path / "a.npz"
    for name, says in (("x", "its member 'x' is no .npy file"), ("x.npy/", "its member 'x.npy/' is no .npy file")):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, whole)
        with pytest.raises(InputError, match=says):
            array_files.load_npz(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", whole)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x.npy", whole)
    with pytest.raises(InputError, match=r"a\.npz holds two arrays of the name 'x'"):
        array_files.load_npz(path)


@pytest.mark.parametrize("at", [-60, -25, 60], ids=["list", "end", "content"])
def test_damaged_archives_are_refused_in_a_sentence(at: int, tmp_path: Path) -> None:
    file = io.BytesIO()
    np.savez_compressed(file, x=np.arange(100))
    for value in range(0, 256, 5):
        content = bytearray(file.getvalue())
        content[at] = value
        (tmp_path / "a.npz").write_bytes(content)
        with contextlib.suppress(InputError):  # of another compressed content there may be the same checksum
            array_files.load_npz(tmp_path / "a.npz")


def test_archives_that_unpack_to_very_much_are_refused_by_their_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_files, "FREE_BYTES", 2**20)
    zeros = np.zeros(2**16, np.float32)  # 256 KiB, of which zlib makes 300 bytes
    for number in range(5):
        np.savez_compressed(tmp_path / f"{number}.npz", x=zeros)
        array_files.load_npz(tmp_path / f"{number}.npz")
    paths = sorted(tmp_path.glob("*.npz"))
    array_files.check_unpacked(paths[:3])
    with pytest.raises(
        InputError, match=r"the 5 \.npz files of .* take [\d,]+ bytes and 1,31\d,\d+ unpacked, more than"
    ):
        array_files.check_unpacked(paths)
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(2**19, np.float32))
    with pytest.raises(InputError, match=r"a\.npz takes .* unpacked, more than 100 times as many; save without compr"):
        array_files.load_npz(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", x=np.zeros(2**19, np.float32))
    array_files.load_npz(tmp_path / "a.npz")


def test_a_size_of_a_member_that_is_not_there_is_no_array(tmp_path: Path) -> None:
    """The list of an archive says more bytes than follow."""
    path = npz(tmp_path / "a.npz", x=npy(PLAIN.replace("(2,)", "(900,)"), b"\0" * 8))
    content = path.read_bytes()
    true = len(npy(PLAIN.replace("(2,)", "(900,)"), b"\0" * 8))
    path.write_bytes(content.replace(struct.pack("<II", true, true), struct.pack("<II", true + 3592, true + 3592)))
    with pytest.raises(InputError, match=r"a\.npz: its array 'x'.* damaged"):
        array_files.load_npz(path)
