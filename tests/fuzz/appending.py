"""A store that is written, killed in the middle of a line, filled up and read: no launch that was kept is lost."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from hypothesis import strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from bench.api.errors import StoreError
from bench.api.files import WRITING
from bench.records.lines import Failure, Header, Line, Quality, Reset
from bench.records.store import Store
from fuzz.watch import LOST, BrokenRule
from fuzz.workplace import MEMORY
from support import records as made

KEY, CELL = "key", made.BASELINE
PARTS = strategies.integers(0, 400)
TEXTS = strategies.text(strategies.characters(exclude_categories=("Cs",)), max_size=20)
"""All texts that are UTF-8; Hypothesis finds that out for its own default by encoding every character."""
WRITE = os.pwrite


class Killed(BaseException):
    """The process ended here: no handler of an error runs."""


@contextlib.contextmanager
def _raised(kind: type[BaseException]) -> Iterator[None]:
    """Go on where an interruption came out of the store; that it did not would be a loss kept quiet."""
    try:
        yield
    except kind:
        return
    raise BrokenRule(LOST, f"no {kind.__name__} came out of the store")


class Appending(RuleBasedStateMachine):
    """One cell's file under every interruption; `kept` is what the store said it has written."""

    def __init__(self) -> None:
        super().__init__()
        self.results = Path(tempfile.mkdtemp(prefix="fuzz-", dir=MEMORY if MEMORY.is_dir() else None))
        (self.results / "machine").mkdir()
        self.store = Store(self.results, "machine")
        self.file = self.store.folder / f"{KEY}.jsonl"
        self.numbers = itertools.count()
        self.kept: list[str] = []
        self.unsure: str | None = None
        self.current: dict[str, str] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.results, ignore_errors=True)

    @initialize()
    def begin(self) -> None:
        self.store.append(KEY, Header(key=KEY, cell=CELL, schema=2))

    def _launch(self) -> Line:
        return made.launch("a", "cell", 1, launch=str(next(self.numbers)), steady_ns=((1, 2),))

    def _settle(self) -> None:
        """A launch whose write was cut short is in the file as a whole, or not at all; from now on that stands."""
        if self.unsure is not None and self.unsure in self._stored():
            self.kept.append(self.unsure)
        self.unsure = None

    def _stored(self) -> list[str]:
        record = self.store.read(KEY)
        return [launch.launch for launch in record.launches] if record else []

    @rule()
    def append(self) -> None:
        self._settle()
        line = self._launch()
        self.store.append(KEY, line)
        self.kept.append(line.launch)  # type: ignore[union-attr]

    @rule(written=PARTS)
    def append_and_be_killed(self, written: int) -> None:
        self._settle()
        line = self._launch()

        def pwrite(descriptor: int, data: bytes, offset: int) -> int:
            WRITE(descriptor, data[:written], offset)
            raise Killed

        with mock.patch("os.pwrite", pwrite), _raised(Killed):
            self.store.append(KEY, line)
        self.unsure = line.launch  # type: ignore[union-attr]

    @rule(written=PARTS, call=strategies.sampled_from(["os.pwrite", "os.fsync"]))
    def append_to_a_full_disk(self, written: int, call: str) -> None:
        self._settle()

        calls = itertools.count()

        def full(descriptor: int, data: bytes = b"", offset: int = 0) -> int:
            if call == "os.pwrite" and written and next(calls) == 0:
                return WRITE(descriptor, data[: min(written, len(data) - 1)], offset)
            raise OSError(errno.ENOSPC, "No space left on device")

        with mock.patch(call, full), _raised(StoreError):
            self.store.append(KEY, self._launch())

    @rule(tail=strategies.binary(max_size=30).filter(lambda tail: b"\n" not in tail))
    def lose_the_power(self, tail: bytes) -> None:
        """Of a last line anything may be left."""
        self._settle()
        with self.file.open("ab") as file:
            file.write(tail)

    @rule(text=TEXTS)
    def append_other_lines(self, text: str) -> None:
        self._settle()
        self.store.append(KEY, Quality(fidelity="close", warning=text))
        self.store.append(KEY, Failure(stage="open", reason=text))

    @rule()
    def reset(self) -> None:
        self._settle()
        self.store.append(KEY, Reset())
        self.kept = []

    @rule(text=TEXTS)
    def append_a_line_of_a_newer_version(self, text: str) -> None:
        self._settle()
        self.store.append(KEY, Quality(fidelity="close"))  # writes over what is left of a last line
        with self.file.open("ab") as file:
            file.write(b'{"kind":"newer","launch":"x","text":%r}\n' % len(text))

    @rule(cell=strategies.sampled_from(["one", "two"]), key=TEXTS)
    def point(self, cell: str, key: str) -> None:
        self.store.point({cell: key})
        self.current[cell] = key

    @rule(call=strategies.sampled_from(["os.fsync", "pathlib.Path.replace"]))
    def point_and_be_killed(self, call: str) -> None:
        with mock.patch(call, side_effect=Killed), _raised(Killed):
            self.store.point({"one": "lost"})

    @precondition(lambda self: self.unsure is None)
    @rule()
    def append_a_launch_again(self) -> None:
        """A process that goes on after a kill may store a launch a second time."""
        if self.kept:
            self.store.append(KEY, replace(made.launch("a", "cell", 1), launch=self.kept[-1], steady_ns=((1, 2),)))

    @rule()
    def lock(self) -> None:
        with self.store.locked():
            left = [*self.store.folder.glob(f"{WRITING}*")]
        if left:
            raise BrokenRule(LOST, f"{left} stay")

    @invariant()
    def all_that_was_kept_is_read(self) -> None:
        stored = self._stored() if self.file.exists() else []
        if stored not in (self.kept, [*self.kept, self.unsure]):
            raise BrokenRule(LOST, f"{stored} are read where {self.kept} were kept")
        if self.store.current() != self.current:
            raise BrokenRule(LOST, f"{self.store.current()} is current where {self.current} was noted")
