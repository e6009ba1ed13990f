"""Results: one JSON Lines file per cell and machine, append-only.

`<results>/<machine>/<key>.jsonl` begins with a `cell` line (coordinates, artifact, versions) and goes on with
`quality`, `launch`, `thread_launch`, `failure` and `reset` lines, each flushed and fsynced as it is written. The key
hashes the cell and all that a figure depends on, so a file never mixes two of them. A last line cut short by a power
cut or a kill is dropped when the file is next opened; everything before it stands. `current.json` names the file that
the latest run used for each cell; it can be lost without losing a result.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import errno
import fcntl
import json
import os
import tempfile
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bench.api.cell import Cell
from bench.api.errors import InputError, StoreError
from bench.measure.launch import Launch
from bench.records.lines import Failure, Header, Line, Quality, Reset
from bench.records.measured import Measured

SCHEMA = 2  # of the lines, and of the measuring code that fills them: raise it when old figures no longer compare
CURRENT = "current.json"
WRITING = ".writing-"  # begins the name of a file that is not whole yet
LAUNCH, THREAD_LAUNCH = "launch", "thread_launch"
KINDS = frozenset(str(line.__struct_config__.tag) for line in typing.get_args(Line))
_LINES: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


class _AnyLine(msgspec.Struct):
    kind: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record(Measured):
    """A cell as it is stored under one key; its failure is the last line, where that line is a failure.

    Attributes:
        thread_launches: launches that ran beside the cell itself at one thread.
    """

    thread_launches: tuple[Launch, ...] = ()

    @classmethod
    def from_lines(cls, lines: Sequence[Line]) -> Record:
        """Put the lines of a file together, the header first; a success clears an earlier failure.

        Raises:
            InputError: the header does not name a cell.
        """
        header = lines[0]
        assert isinstance(header, Header)
        quality = None
        launches: dict[str, dict[str, Launch]] = {LAUNCH: {}, THREAD_LAUNCH: {}}
        for line in lines[1:]:
            match line:
                case Quality():
                    quality = line
                case Launch() if line.superseded:
                    pass
                case Launch():  # by its identifier, for the same line may have been appended twice
                    launches[line.kind][line.launch] = line
                case Reset():
                    launches |= {kind: {} for kind in ([line.launches] if line.launches else launches)}
        return cls(
            cell=Cell.from_path(header.cell),
            header=header,
            quality=quality,
            launches=tuple(launches[LAUNCH].values()),
            thread_launches=tuple(launches[THREAD_LAUNCH].values()),
            failure=lines[-1] if isinstance(lines[-1], Failure) else None,
        )


class Store:
    """One machine's folder of results."""

    def __init__(self, results: Path, machine: str) -> None:
        self.folder = results / machine

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for writing: two sweeps at once would measure each other.

        Raises:
            StoreError: the folder cannot be written, or another process holds it.
        """
        path = self.folder / ".lock"
        with _told("write to", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            file = path.open("w")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StoreError(f"another `bench` is writing to {self.folder}; wait for it to end") from error
            for leftover in self.folder.glob(f"{WRITING}*"):  # of a process that was killed
                leftover.unlink(missing_ok=True)
            yield

    def append(self, key: str, line: Line) -> None:
        """Add a line to a cell's file; when this returns it is on the disk.

        Raises:
            StoreError: the line could not be written; the file is as it was.
        """
        path = self.folder / f"{key}.jsonl"
        stamped = msgspec.structs.replace(line, time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))
        # Not msgspec's own encoder, which writes null for a number that JSON does not have.
        data = (json.dumps(msgspec.to_builtins(stamped), separators=(",", ":"), allow_nan=False) + "\n").encode()
        with _told("write", path), contextlib.ExitStack() as opened:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            opened.callback(os.close, descriptor)
            end = path.read_bytes().rfind(b"\n") + 1  # a last line that was cut short is written over
            try:
                os.ftruncate(descriptor, end)
                _write_all(descriptor, data, end)
                os.fsync(descriptor)
                if end == 0:
                    _sync_folder(self.folder)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, end)
                raise

    def read(self, key: str) -> Record | None:
        """The record under a key; None where there is no such file.

        Raises:
            StoreError: a line before the last is damaged, or the file cannot be read.
        """
        path = self.folder / f"{key}.jsonl"
        lines = read_lines(path)
        try:
            return Record.from_lines(lines) if lines else None
        except InputError as error:
            raise StoreError(f"{path} is damaged: {error!r}; move the file away and run again") from error

    def read_all(self) -> dict[str, Record]:
        """Every record in the folder, by key."""
        records = (self.read(path.stem) for path in sorted(self.folder.glob("*.jsonl")))
        return {record.key: record for record in records if record is not None}

    def point(self, keys: dict[str, str]) -> None:
        """Note which key is current for each cell path, besides the paths that were noted before."""
        write_atomically(self.folder / CURRENT, json.dumps({**self.current(), **keys}, indent=0, sort_keys=True))

    def current(self) -> dict[str, str]:
        """The key that the latest run noted for each cell path, where it noted a key."""
        path = self.folder / CURRENT
        try:
            said = json.loads(path.read_text())
            if not isinstance(said, dict):
                raise ValueError("not an object")
        except FileNotFoundError:
            said = {}
        except ValueError as error:
            raise StoreError(f"{path} is not what it should be: {error}; delete it and run again") from error
        return {str(path): str(key) for path, key in said.items()}

    def current_records(self) -> dict[str, Record]:
        """The current record of each cell path: that under the noted key, or else the record that was begun last."""
        records, said = self.read_all(), self.current()
        by_time = sorted(records.values(), key=lambda record: record.header.time)
        latest = {record.cell.path: record for record in by_time}
        return latest | {path: records[key] for path, key in said.items() if key in records}


def read_lines(path: Path) -> list[Line]:
    """The whole lines of a result file, the header first; a last line without a newline is left out.

    Lines of a kind that only a newer version knows are left out, too.

    Returns:
        An empty list where there is no such file.

    Raises:
        StoreError: a line is damaged, or the file cannot be read.
    """
    with _told("read", path):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return []
    lines: list[Line] = []
    for number, text in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            lines.append(_LINES.decode(text))
        except ValueError as error:
            if _is_of_unknown_kind(text):
                continue
            raise StoreError(f"{path}, line {number}, is damaged: {error}; move the file away and run again") from error
    if lines and not isinstance(lines[0], Header):
        raise StoreError(f"{path} does not begin with a cell line; move the file away and run again")
    return lines


def _is_of_unknown_kind(text: bytes) -> bool:
    try:
        return msgspec.json.decode(text, type=_AnyLine).kind not in KINDS
    except ValueError:
        return False


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a whole file or nothing.

    Raises:
        StoreError: the file could not be written; an earlier file of that name is unchanged.
    """
    with _told("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=WRITING, delete=False) as file:
            try:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).chmod(0o644)
                Path(file.name).replace(path)
                _sync_folder(path.parent)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise


def _sync_folder(folder: Path) -> None:
    """Write a folder to the disk, so that the name of a new file in it is kept."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


@contextlib.contextmanager
def _told(verb: str, path: Path) -> Iterator[None]:
    """Raise a `StoreError` in place of an `OSError`: which action on a path failed, and how to fix the failure."""
    try:
        yield
    except OSError as error:
        fix = None
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            fix = "free some space and run again; everything finished so far is kept"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            fix = "choose another folder with --results"
        raise StoreError(f"cannot {verb} {path}: {error.strerror}", fix=fix) from error
