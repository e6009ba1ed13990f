"""The command itself, in an empty folder with a cache of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.records import assemble
from bench.records.store import Store
from support import quick_bench
from support.commands import run_here

COMMAND = (str(Path(sys.executable).with_name("bench")),)
QUICK = (sys.executable, "-P", quick_bench.__file__)


class Harness:
    """Runs `bench` and reads what it stored.

    Attributes:
        folder: the working folder.
        environment: more environment variables, such as `BENCH_PATH`.
        quick: bursts of two inferences instead of the real ones.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.quick = True
        self.environment = {"BENCH_CACHE": str(folder / "cache"), "BENCH_PATH": ""}

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start it; standard output and error are files in the folder."""
        with (self.folder / "stdout").open("w") as stdout, (self.folder / "stderr").open("w") as stderr:
            return subprocess.Popen(
                [*(QUICK if self.quick else COMMAND), *arguments],
                cwd=self.folder,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                text=True,
                **options,
            )

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run it to its end, check its exit code and return what it printed."""
        with self.start(*arguments) as process:
            found = process.wait(timeout=180)
        assert found == code, self.stderr()
        assert "Traceback" not in self.stderr()
        return (self.folder / "stdout").read_text()

    def here(self, *arguments: str, code: int = 0) -> str:
        """The same in this process, whose workers are processes of their own all the same.

        It leaves out what a process does when it starts, and how it ends: tests of these use `run`.
        """
        found = run_here(
            *arguments,
            folder=self.folder,
            environment=self.environment,
            stdout=self.folder / "stdout",
            stderr=self.folder / "stderr",
            quick=self.quick,
        )
        assert found == code, self.stderr()
        assert "Traceback" not in self.stderr()
        return (self.folder / "stdout").read_text()

    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    def shown(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """The rows of `bench show` by cell."""
        return {row["cell"]: row for row in json.loads(self.here("show", "--format", "json", *arguments))}

    def rows(self) -> dict[str, dict[str, Any]]:
        """The same without starting a process."""
        (folder,) = {path.parent for path in self.files()}
        rows = assemble.rows(Store(folder.parent, folder.name).current_records())
        return {row.cell: dataclasses.asdict(row) for row in rows}

    def files(self) -> list[Path]:
        return sorted((self.folder / "results").glob("*/*.jsonl"))

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """Every whole line of one kind that is stored."""
        found = []
        for path in self.files():
            *whole, _ = path.read_bytes().split(b"\n")  # what follows the last newline was cut short
            found += [line for line in map(json.loads, whole) if line["kind"] == kind]
        return found

    def num_lines(self) -> int:
        """Lines that are stored, of cells and of launches."""
        return sum(path.read_bytes().count(b"\n") for path in self.files())

    def launch_ids(self) -> list[str]:
        return [line["launch"] for line in self.lines("launch")]

    def workers(self) -> list[int]:
        """Processes of this harness's runs that are still there, besides zombies and the command itself."""
        marker = f"BENCH_CACHE={self.environment['BENCH_CACHE']}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (folder / "cmdline").read_bytes()
                if b"bench.measure.worker" in command and marker in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found


def pytest_itemcollected(item: pytest.Item) -> None:
    """Each test here starts the command, which starts workers."""
    item.add_marker(pytest.mark.slow(seconds=2))


@pytest.fixture(scope="session")
def new_harness() -> type[Harness]:
    """For fixtures that live longer than a test."""
    return Harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path)
    yield harness
    assert harness.workers() == []
