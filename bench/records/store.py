"""Results: one JSON Lines file per cell and machine, append-only.

`<results>/<machine>/<key>.jsonl` begins with a `cell` line (coordinates, artifact, versions) and goes on with
`quality`, `launch`, `thread_launch`, `failure` and `reset` lines, each flushed and fsynced as it is written. The key
hashes the cell and all that a figure depends on, so a file never mixes two of them. A last line cut short by a power
cut or a kill is written over by the next line; everything before it stands. Any other line that cannot be read stays
where it is, and the next line is written below it. `current.json` names the file that the latest run used for each
cell; it can be lost without losing a result.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import errno
import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bench.api import files
from bench.api.cell import Cell
from bench.api.errors import InputError, StoreError
from bench.measure import machine
from bench.measure.launch import Launch
from bench.records import forward_compat, reading, side_files
from bench.records.lines import SCHEMA as SCHEMA
from bench.records.lines import Failure, FeatureLine, Header, Line, Quality, Reset, WiderQuality
from bench.records.measured_cell import Measured
from bench.records.reading import Damage, Reading
from bench.records.redaction import fit_to_send

CURRENT = "current.json"
LAUNCH, THREAD_LAUNCH = "launch", "thread_launch"
F = TypeVar("F", bound=FeatureLine)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record(Measured):
    """A cell as it is stored under one key; its failure is the last line, where that line is a failure.

    Attributes:
        thread_launches: launches that ran beside the cell itself at one thread.
        of_features: lines of features, see `FeatureLine`.
    """

    thread_launches: tuple[Launch, ...] = ()
    of_features: tuple[FeatureLine, ...] = ()

    def of(self, kind: type[F]) -> tuple[F, ...]:
        """The lines of one kind of a feature."""
        return tuple(line for line in self.of_features if isinstance(line, kind))

    @classmethod
    def from_lines(cls, lines: Sequence[Line]) -> Record:
        """Put the lines of a file together, the header first; a success clears an earlier failure."""
        header = lines[0]
        assert isinstance(header, Header)
        quality = None
        launches: dict[str, dict[str, Launch]] = {LAUNCH: {}, THREAD_LAUNCH: {}}
        of_features: dict[tuple[type, str], FeatureLine] = {}
        for line in lines[1:]:
            match line:
                case Quality():
                    quality = line
                case Launch() if line.superseded:
                    pass
                case Launch():  # by its identifier, for the same line may have been appended twice
                    launches[line.kind][line.launch] = line
                case FeatureLine():
                    of_features[type(line), line.identity] = line
                case Reset():
                    launches |= {kind: {} for kind in ([line.launches] if line.launches else launches)}
        return cls(
            cell=Cell.from_path(header.cell),
            header=header,
            quality=quality,
            launches=tuple(launches[LAUNCH].values()),
            thread_launches=tuple(launches[THREAD_LAUNCH].values()),
            of_features=tuple(of_features.values()),
            failure=lines[-1] if isinstance(lines[-1], Failure) else None,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contents:
    """All that a folder of results holds.

    Attributes:
        records: every record, by its key.
        current: the current record of each cell path: that under the noted key, or else the record that was begun last.
        damages: the lines and files that were set aside, because they cannot be read.
    """

    records: Mapping[str, Record]
    current: Mapping[str, Record]
    damages: Sequence[Damage]


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
            descriptor = files.open_to_change(path)
        with os.fdopen(descriptor, "rb"):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StoreError(f"another `bench` is writing to {self.folder}; wait for it to end") from error
            for leftover in self.folder.glob(f"{files.WRITING}*"):  # of a process that was killed
                leftover.unlink(missing_ok=True)
            yield

    def append(self, key: str, line: Line) -> None:
        """Add a line to a cell's file; when this returns it is on the disk.

        Its texts name no home folder, user or host, and no absolute path of a person's: see `fit_to_send`.

        Raises:
            StoreError: the line could not be written; the file is as it was.
        """
        path = self.folder / f"{key}.jsonl"
        stamped = msgspec.structs.replace(
            fit_to_send(line), time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        )
        data = _encoded(stamped)
        with _told("write", path), contextlib.ExitStack() as opened:
            descriptor = files.open_to_change(path)
            opened.callback(os.close, descriptor)
            end = _end(files.read_bytes(path))
            try:
                os.ftruncate(descriptor, end.offset)
                _write_all(descriptor, end.before + data, end.offset)
                os.fsync(descriptor)
                if end.offset == 0:
                    files.sync_folder(self.folder)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, end.offset)
                raise

    def read(self, key: str) -> Record | None:
        """The record under a key; None where there is no such file, or no header in it.

        Lines that cannot be read are passed over: `contents` tells of them.

        Raises:
            StoreError: the file cannot be read.
        """
        lines = read_file(self.folder / f"{key}.jsonl").lines
        return Record.from_lines(lines) if lines else None

    def contents(self) -> Contents:
        """All that can be read of the folder, and all that cannot.

        Raises:
            StoreError: the folder cannot be listed.
        """
        records: dict[str, Record] = {}
        damages: list[Damage] = []
        folder = str(self.folder)
        with _told("read", self.folder):
            names = os.listdir(self.folder) if self.folder.is_dir() else ()  # noqa: PTH208 (paths are slow to sort)
        for name in sorted(name for name in names if name.endswith(".jsonl")):
            path = os.path.join(folder, name)  # noqa: PTH118 (quicker than a Path, where there are very many)
            try:
                content = read_file(path)
            except InputError:
                content = Reading(damages=(Damage(path=Path(path), reason="it is no regular file"),))
            except StoreError as error:
                content = Reading(damages=(Damage(path=Path(path), reason=str(error)),))
            damages += content.damages
            if content.lines:
                records[name.removesuffix(".jsonl")] = Record.from_lines(content.lines)
        damages += self._without_foreign(records)
        noted, damage = self._noted()
        by_time = sorted(records.values(), key=lambda record: record.header.time)
        latest = {record.cell.path: record for record in by_time}
        said = {cell: records[key] for cell, key in noted.items() if key in records and records[key].cell.path == cell}
        return Contents(records=records, current=latest | said, damages=(*damages, *([damage] if damage else [])))

    def _without_foreign(self, records: dict[str, Record]) -> list[Damage]:
        """Take out the records of other machines than the folder's, and say of which files they are.

        The folder's machine is that which its name stands for, or else that of most records.
        """
        described = {key: record.header.machine for key, record in records.items() if record.header.machine}
        first = next(iter(described.values()), None)
        if all(facts == first for facts in described.values()):
            return []
        texts = {key: json.dumps(facts, sort_keys=True) for key, facts in described.items()}
        counts = Counter(texts.values())
        own = max(texts, key=lambda key: (machine.name_of(described[key]) == self.folder.name, counts[texts[key]]))
        foreign = [key for key, text in texts.items() if text != texts[own]]
        for key in foreign:
            del records[key]
        reason = f"it is not the machine of {own}.jsonl; one folder holds the results of one machine"
        paths = (self.folder / f"{key}.jsonl" for key in foreign)
        return [Damage(path=path, field="machine", reason=reason) for path in paths]

    def read_all(self) -> dict[str, Record]:
        """Every record in the folder, by key."""
        return dict(self.contents().records)

    def point(self, keys: dict[str, str]) -> None:
        """Note which key is current for each cell path, besides the paths that were noted before."""
        write_atomically(self.folder / CURRENT, json.dumps({**self.current(), **keys}, indent=0, sort_keys=True))

    def current(self) -> dict[str, str]:
        """The key that the latest run noted for each cell path, where it noted a key that can be read."""
        return self._noted()[0]

    def _noted(self) -> tuple[dict[str, str], Damage | None]:
        """The noted keys, and what is wrong with the file of them."""
        path = self.folder / CURRENT
        fix = "the latest results count; `bench run` writes the file anew"
        entries, damage = side_files.read(path, dict[str, Any], fix=fix)
        noted = {cell: key for cell, key in (entries or {}).items() if isinstance(key, str)}
        wrong = next((cell for cell in entries or {} if cell not in noted), None)
        if wrong is not None:
            damage = Damage(path=path, field=wrong[:100], reason=f"it is no key; {fix}")
        return noted, damage

    def current_records(self) -> dict[str, Record]:
        """The current record of each cell path: that under the noted key, or else the record that was begun last."""
        return dict(self.contents().current)


def read_file(path: Path | str) -> Reading:
    """Read a result file; a file that does not exist has no lines.

    Raises:
        StoreError: the file cannot be read.
    """
    try:
        with files.opened_whole(path) as file:
            content = reading.read(file, key=os.path.basename(path).removesuffix(".jsonl"))  # noqa: PTH119 (as above)
    except FileNotFoundError:
        return Reading()
    except OSError as error:
        raise _store_error("read", Path(path), error) from error
    if not content.damages:
        return content
    damages = tuple(dataclasses.replace(damage, path=Path(path)) for damage in content.damages)
    return dataclasses.replace(content, damages=damages)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _End:
    """Where the next line of a file is written, and the bytes that come before it."""

    offset: int
    before: bytes = b""


def _end(data: bytes) -> _End:
    """The end of a file's content.

    A last line that was cut short in the middle of a write is written over. A last line that only lacks its newline,
    and a line that never was the beginning of one of ours, stay.
    """
    start = data.rfind(b"\n") + 1
    last = data[start:]
    return _End(offset=start) if not last or reading.is_cut(last) else _End(offset=len(data), before=b"\n")


def _encoded(line: Line) -> bytes:
    """A line as it is written; the fields of a newer version come last in each object."""
    fields = msgspec.to_builtins(line)
    if isinstance(line, WiderQuality):
        del fields["unknown"]
        fields = forward_compat.put_back(fields, line.unknown)
    # Not msgspec's own encoder, which writes null for a number that JSON does not have.
    return (json.dumps(fields, separators=(",", ":"), allow_nan=False) + "\n").encode()


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a whole file or nothing.

    Raises:
        InputError: the path is there and is no regular file.
        StoreError: the file could not be written; an earlier file of that name is unchanged.
    """
    with _told("write", path):
        files.write_whole(path, content.encode() if isinstance(content, str) else content)


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


@contextlib.contextmanager
def _told(verb: str, path: Path) -> Iterator[None]:
    """Raise a `StoreError` in place of an `OSError`."""
    try:
        yield
    except OSError as error:
        raise _store_error(verb, path, error) from error


def _store_error(verb: str, path: Path, error: OSError) -> StoreError:
    """Which action on a path failed, and how to fix the failure."""
    fix = None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        fix = "free some space and run again; everything finished so far is kept"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        fix = "choose another folder with --results"
    return StoreError(f"cannot {verb} {path}: {error.strerror}", fix=fix)
