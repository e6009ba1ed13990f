"""Reads `.npy` and `.npz` files that a user gave: whatever a header states is counted before memory is taken for it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bench.api import files
from bench.api.errors import InputError

if TYPE_CHECKING:
    import numpy as np

KINDS = "biufcSU"
"""Kinds of NumPy dtypes that are read: numbers, bools and texts. Objects are pickles; the others are no input."""
_MOST_AXES = 32
_MOST_EMPTY = 2**20
"""The product of the other axes of an array that holds nothing, at most: loops go over the first axis."""
FREE_BYTES = 2**28
_MOST_TIMES = 100
"""Arrays of more than `FREE_BYTES` are at most so many times as large as their file."""
READ_BYTES = 2**20
"""Bytes that are read at once: beside the array itself, no more of the file than a few times as many are in memory."""
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
"""Places in the table of characters that stand for none."""
_NPZ = "as numpy.savez writes it"
_NPY = "as numpy.save writes it"
_MAGIC = b"\x93NUMPY"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Header:
    """What the header of a `.npy` file states, after it was checked.

    Attributes:
        dtype: NumPy's type of the elements.
        shape: sizes of the axes.
        order: `C` or `F`.
        num_bytes: bytes of the elements.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: str
    num_bytes: int


def load_npz(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of an `.npz` file by name.

    Raises:
        InputError: the file cannot be read, is no `.npz` file of plain arrays, or is much larger unpacked.
    """
    with _archive(path) as archive:
        members = _members(path, archive)
        _check_unpacked({path: sum(member.file_size for member in members.values())})
        arrays = {}
        for name, member in members.items():
            what = f"{path}: its array {name!r}"
            with _explained(what), archive.open(member) as file:
                arrays[name] = _read(file, member.file_size, what)
        return arrays


def load_npy(path: Path) -> np.ndarray:
    """Read the array of an `.npy` file.

    Raises:
        InputError: the file cannot be read, or is no `.npy` file of a plain array.
    """
    with _explained(str(path)), files.opened(path) as file:
        if not file.peek(len(_MAGIC)).startswith(_MAGIC):
            raise InputError(f"{path} is no .npy file of a plain array, {_NPY}: it is another kind of file, or damaged")
        return _read(file, path.stat().st_size, str(path))


def check_unpacked(paths: Iterable[Path]) -> None:
    """Refuse `.npz` files whose arrays are together much larger than the files.

    Raises:
        InputError: they are, or one of them is no archive; the message has the figures.
    """
    sizes = {}
    for path in paths:
        with _archive(path) as archive:
            sizes[path] = sum(member.file_size for member in _members(path, archive).values())
    _check_unpacked(sizes)


def _check_unpacked(unpacked: Mapping[Path, int]) -> None:
    stored, total = sum(path.stat().st_size for path in unpacked), sum(unpacked.values())
    if total > max(FREE_BYTES, _MOST_TIMES * stored):
        first = next(iter(unpacked))
        what = f"{first} takes" if len(unpacked) == 1 else f"the {len(unpacked)} .npz files of {first.parent} take"
        raise InputError(
            f"{what} {stored:,} bytes and {total:,} unpacked, more than {_MOST_TIMES} times as many; save without "
            "compression, as numpy.savez does"
        )


@contextlib.contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        stored = files.opened(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    with stored:
        try:
            archive = zipfile.ZipFile(stored)
        except Exception as error:  # of a damaged list of members: BadZipFile, struct.error, UnicodeDecodeError, ...
            raise InputError(
                f"{path} is no .npz file of plain arrays by input name, {_NPZ}: it is another kind of file, or damaged"
            ) from error
        with archive:
            yield archive


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members of an archive by the names of their arrays.

    Raises:
        InputError: a member is no array, or two have one name.
    """
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if name == member.filename:
            raise InputError(f"{path} is no .npz file, {_NPZ}: its member {member.filename!r} is no .npy file")
        if name in members:
            raise InputError(f"{path} holds two arrays of the name {name!r}")
        members[name] = member
    return members


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Raise an InputError instead of any other error: damaged files fail in very many ways."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except OSError as error:
        raise InputError(f"cannot read {what}: {error.strerror or error}") from error
    except Exception as error:
        raise InputError(f"{what} cannot be read: it is damaged, encrypted or not {_NPY}") from error


def _read(file: IO[bytes], size_bytes: int, what: str) -> np.ndarray:
    """The array of an opened `.npy` file.

    Args:
        file: the file, from its first byte on.
        size_bytes: bytes of the file in all.
        what: the file in messages.
    """
    import numpy as np

    header = _header(file, size_bytes, what)
    content = bytearray(header.num_bytes)
    place, num_read = memoryview(content), 0
    while part := file.read(min(READ_BYTES, len(content) - num_read)):  # of a member, readinto() would read all first
        place[num_read : num_read + len(part)] = part
        num_read += len(part)
    if num_read < len(content) or file.read(1):  # of a member of an archive, the end of which shows its checksum
        raise InputError(f"{what} is damaged: {num_read:,} of {len(content):,} bytes are there")
    array = np.ndarray(header.shape, header.dtype, buffer=content, order="F" if header.order == "F" else "C")
    if header.dtype.kind == "U" and array.size:
        codes = np.frombuffer(content, header.dtype.byteorder.replace("|", "=") + "u4")
        if codes.max() > _LAST_CHARACTER or ((codes >= _SURROGATES[0]) & (codes <= _SURROGATES[1])).any():
            raise InputError(f"{what} holds texts with characters that do not exist")
    return array


def _header(file: IO[bytes], size_bytes: int, what: str) -> _Header:
    """What the header of a `.npy` file states.

    Raises:
        InputError: it cannot be read, is of an array that is not read here, or does not fit the size of the file.
    """
    import numpy as np

    try:
        version = np.lib.format.read_magic(file)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, is_fortran, dtype = readers[version](file)
        read_bytes = file.tell()
    except Exception as error:  # the header is a Python literal: TokenError, RecursionError, OverflowError, ...
        raise InputError(f"{what} is no plain array, {_NPY}: its header cannot be read") from error
    if dtype.hasobject:
        raise InputError(f"{what} holds Python objects; save numbers, bools or texts")
    if dtype.kind not in KINDS or dtype.shape:
        raise InputError(f"{what} holds elements of the type {dtype.str}; save numbers, bools or texts")
    if len(shape) > _MOST_AXES or any(size < 0 for size in shape):
        raise InputError(
            f"{what} has the shape {_told(shape)}; up to {_MOST_AXES} sizes of 0 and more are read; "
            "save an array of fewer axes with numpy.save or numpy.savez"
        )
    count = math.prod(shape)
    if not dtype.itemsize and count:
        raise InputError(
            f"{what} holds {count:,} elements of {dtype.str}, which take no bytes; save texts that have some"
        )
    if not count and math.prod(size or 1 for size in shape) > _MOST_EMPTY:
        raise InputError(f"{what} holds nothing and has the shape {_told(shape)}; up to {_MOST_EMPTY:,} are read")
    num_bytes, there = count * dtype.itemsize, size_bytes - read_bytes
    if num_bytes != there:
        raise InputError(
            f"{what} is damaged: it says {_told(shape)} of {dtype.str}, {num_bytes:,} bytes, and {there:,} follow"
        )
    return _Header(dtype=dtype, shape=shape, order="F" if is_fortran else "C", num_bytes=num_bytes)


def _told(shape: tuple[int, ...]) -> str:
    sizes = "x".join(map(str, shape)) or "a single element"
    return sizes if len(sizes) <= 80 else f"{sizes[:80]}..."
