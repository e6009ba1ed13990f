"""Commands that are killed or stopped at random moments lose no launch, leave no process, and say what they kept.

`bench run`, `bench compare` of two revisions and `bench check`, of the toy task on the null runtime, get SIGKILL, or
SIGINT or SIGTERM, beside a folder with thousands of stored launches. After each, the script counts launches that are
lost, lines that cannot be read, processes that are left, tracebacks, wrong ends and late ends.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.api import loading

BENCH = (sys.executable, "-P", "-c", "from bench.cli.main import main; main()")
CELLS = [f"toy/null/native/raw/null/cpu/b{batch}t1" for batch in (1, 2, 4, 8)]
ENDLESS = ("--launches", "1000000", "--margin", "0.0001%")
LATEST_S = 2.0
"""Largest time from a signal to the end of the command."""
ORPHAN_S = 5.0
"""Time after which a process that the command started is an orphan."""
START_S = 60.0
"""Time in which a command heeds signals, on the busiest machine."""
RUN_S = 8.0
"""The latest moment of a command that has no end."""
STOPPED = re.compile(r"(?:\x1b\[\?25h)?bench: stopped(?:; (\d+) launch(?:es)? kept; the same command goes on)?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command:
    """A command to stop: its arguments, and the latest moment in seconds after its start."""

    arguments: tuple[str, ...]
    latest_s: float


class Place:
    """A folder with results, a repository and a pick, in which the commands run.

    Attributes:
        folder: the folder.
        marker: an environment variable that all processes of the commands have.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marker = f"BENCH_KILLS={uuid.uuid4().hex}"
        (folder / "temporary").mkdir()
        name, _, value = self.marker.partition("=")
        self._environment = {
            **os.environ,
            "BENCH_CACHE": str(folder / "cache"),
            "BENCH_PATH": "",
            "TMPDIR": str(folder / "temporary"),
            name: value,
        }

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start `bench` in a process group of its own; what it says goes to the file `said`."""
        with (self.folder / "said").open("wb") as said:
            return subprocess.Popen(
                [*BENCH, *arguments],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                process_group=0,
            )

    def run(self, *arguments: str) -> float:
        """Run `bench` to its end, and return the seconds that it took.

        Raises:
            RuntimeError: it failed.
        """
        start_s = time.monotonic()
        if code := self.start(*arguments).wait():
            raise RuntimeError(f"bench {' '.join(arguments)} ended with {code}: {self.said()}")
        return time.monotonic() - start_s

    def said(self) -> str:
        """All that the latest command wrote to its standard error stream."""
        return (self.folder / "said").read_text(errors="replace")

    def lines(self) -> Iterator[tuple[bytes, bool]]:
        """Every stored line, and whether it is whole."""
        for path in sorted((self.folder / "results").glob("*/*.jsonl")):
            *whole, rest = path.read_bytes().split(b"\n")
            yield from ((line, True) for line in whole)
            if rest:
                yield rest, False

    def launches(self) -> tuple[set[str], set[str], int]:
        """The identifiers of all stored launches, of those that count, and the number of lines that are not JSON."""
        found, counting, num_unparsable = set(), set(), 0
        for line, _ in (item for item in self.lines() if item[1]):
            try:
                fields = json.loads(line)
                if fields["kind"] == "launch":
                    found.add(fields["launch"])
                    if not fields.get("superseded"):
                        counting.add(fields["launch"])
            except (ValueError, KeyError, TypeError):
                num_unparsable += 1
        return found, counting, num_unparsable

    def processes(self) -> list[int]:
        """The living processes of all commands and their children."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self.marker.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found


def prepare(place: Place, num_launches: int) -> dict[str, Command]:
    """Measure the toy task, store its launches many times over, and make a repository and a pick of it."""
    place.run("run", *CELLS, "--launches", "2", "--margin", "50%")
    place.run("pick", "toy")
    multiply(place, num_launches)
    model = place.folder / "repository" / "mine"
    shutil.copytree(loading.PLUGINS / "models" / "toy", model, ignore=shutil.ignore_patterns("__pycache__"))
    for rounds in (10, 100):
        (model / "weights.json").write_text(json.dumps({"rounds": rounds, "scale": 2.0}))
        commit(model.parent)
    compare = ("compare", "HEAD~1", "HEAD", "--model", str(model), "--launches", "4")
    check = ("check", "results/picks/toy", "--launches", "4", "--tolerance", "90%")
    return {
        "run": Command(arguments=("run", *CELLS, *ENDLESS), latest_s=RUN_S),
        "compare": Command(arguments=compare, latest_s=place.run(*compare)),
        "check": Command(arguments=check, latest_s=place.run(*check)),
    }


def multiply(place: Place, num_launches: int) -> None:
    """Append copies of the stored launches, in blocks of their own, until there are so many."""
    paths = sorted((place.folder / "results").glob("*/*.jsonl"))
    fields: dict[Path, list[dict[str, Any]]] = {
        path: [line for line in map(json.loads, path.read_text().splitlines()) if line["kind"] == "launch"]
        for path in paths
    }
    copies = -(-num_launches // sum(map(len, fields.values())))
    for path, lines in fields.items():
        with path.open("a") as file:
            for number in range(copies):
                for line in lines:
                    copy = {**line, "launch": uuid.uuid4().hex[:16], "block": f"{line['block']}-{number}"}
                    file.write(json.dumps(copy, separators=(",", ":")) + "\n")


def commit(folder: Path) -> None:
    """Commit all files of a folder."""
    settings = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "core.hooksPath=/dev/null")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for arguments in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "rounds"]):
        subprocess.run(["git", "-C", folder, *settings, *arguments], check=True, capture_output=True, env=environment)


def heeding(process: subprocess.Popen[bytes]) -> float:
    """Wait until a command heeds SIGTERM, and return the seconds that it took.

    No program can heed a signal until the interpreter has started; the command heeds it before it imports anything
    large, and from then on it is stopped at any moment.
    """
    began_s = time.monotonic()
    while time.monotonic() - began_s < START_S and process.poll() is None:
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
        if caught and int(caught[1], 16) >> (signal.SIGTERM - 1) & 1:
            break
        time.sleep(0.001)
    return time.monotonic() - began_s


def stop(place: Place, command: Command, number: int, after_s: float) -> collections.Counter[str]:
    """Send a signal to a command, and count what went wrong.

    Args:
        place: where the command runs.
        command: the command.
        number: the signal.
        after_s: seconds after the start of the command.
    """
    wrong: collections.Counter[str] = collections.Counter()
    before, counting, _ = place.launches()
    process = place.start(*command.arguments)
    start_s = heeding(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=after_s)
    was_running = process.poll() is None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    sent_s = time.monotonic()
    code = process.wait(timeout=60)
    took_s = time.monotonic() - sent_s
    wrong["late ends"] += number != signal.SIGKILL and took_s > LATEST_S  # the kernel ends a killed process
    while (left := place.processes()) and time.monotonic() - sent_s < ORPHAN_S:
        time.sleep(0.02)
    wrong["orphans"] += len(left)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    after, counting_after, num_unparsable = place.launches()
    wrong["lost launches"] += len(before - after)
    wrong["unparsable lines"] += num_unparsable
    if number != signal.SIGKILL:
        wrong["unparsable lines"] += sum(not whole for _, whole in place.lines())
    said = place.said()
    wrong["tracebacks"] += "Traceback" in said
    last = STOPPED.fullmatch(said.splitlines()[-1]) if said else None
    if number == signal.SIGKILL and was_running and code == -number:
        pass
    elif number != signal.SIGKILL and code == 128 + number:
        wrong["wrong ends"] += last is None or int(last[1] or 0) != len(counting_after - counting)
    elif code not in (0, 1):  # it may have ended by itself when the signal came, but not with an error
        wrong["wrong ends"] += 1
    if +wrong:
        sent = f"{signal.Signals(number).name} after {after_s:.3f} s"
        print(f"{time.strftime('%H:%M:%S')} {' '.join(command.arguments)}, {sent}:")
        print(f"  ended with {code} after {took_s:.3f} s: {dict(+wrong)}")
        print("\n".join(f"  {line}" for line in said.splitlines()[-12:]), flush=True)
    return wrong + collections.Counter({"running": was_running, "start_ms": round(1000 * start_s)})


def trials(place: Place, num_trials: int, num_launches: int, seed: int) -> collections.Counter[str]:
    """Stop the commands in turn, so many times by SIGKILL and so many times by SIGINT or SIGTERM."""
    commands = prepare(place, num_launches)
    print(f"{len(place.launches()[0])} launches are stored")
    generator = random.Random(seed)
    total: collections.Counter[str] = collections.Counter()
    for trial in range(num_trials):
        command = [*commands.values()][trial % len(commands)]
        for number in (signal.SIGKILL, generator.choice((signal.SIGINT, signal.SIGTERM))):
            total += stop(place, command, number, generator.uniform(0, command.latest_s))
    place.run("show", "toy/*", "--format", "json")
    return total


def main() -> None:
    """Stop the commands, and print what went wrong, or `passed`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200, help="number of SIGKILL, and as many other signals")
    parser.add_argument("--launches", type=int, default=2000, help="number of launches at stake")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # commands would ignore what this script ignores
    with tempfile.TemporaryDirectory() as folder:
        total = trials(Place(Path(folder)), arguments.trials, arguments.launches, arguments.seed)
    num_running, start_ms = total.pop("running", 0), total.pop("start_ms", 0) / (2 * arguments.trials)
    print(f"{2 * arguments.trials} signals, {num_running} of them while the command ran")
    print(f"the commands heeded signals {start_ms:.0f} ms after their start, on average")
    wrong = {name: count for name, count in total.items() if count}
    print(", ".join(f"{count} {name}" for name, count in wrong.items()) or "passed")
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
