"""A fleet of two nodes on this machine: they share a sweep, and it goes on after the death of any of its processes."""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

pytest.importorskip("ray")

if TYPE_CHECKING:
    from conftest import Harness

pytestmark = [pytest.mark.slow(seconds=90), pytest.mark.timeout(600)]
FAULTS = Path(__file__).parents[1] / "faults"
CELLS = [
    f"toy/null/native/{variant}/null/cpu/{sizes}" for sizes in ("b1t1", "b2t1", "b4t1") for variant in ("raw", "fewer")
]
BENCH = (sys.executable, "-P", "-c", "from bench.cli.main import main; main()")


@dataclasses.dataclass
class Fleet:
    """A head and further nodes, each with a cache and a lease of its own."""

    folder: Path
    address: str

    def bench(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `bench fleet` as on a machine with this name."""
        variables = {"BENCH_LEASE": f"lease-{name}", "BENCH_CACHE": f"cache-{name}"}
        paths = {key: str(self.folder / value) for key, value in variables.items()}
        environment = {**os.environ, **paths, "BENCH_PATH": str(FAULTS)}
        command = [*BENCH, "fleet", *arguments, "--token-file", str(self.folder / "token")]
        return subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=120)

    def start(self, name: str) -> None:
        """Start the head, or a node that joins it."""
        how = ("up", "--port", self.address.partition(":")[2]) if name == "head" else ("join", self.address)
        done = self.bench(name, *how, "--name", name)
        assert done.returncode == 0, done.stderr

    def processes(self, program: str, name: str | None = None) -> list[psutil.Process]:
        """The processes of this fleet, on one of its machines if it is named, whose command has a word."""
        found = []
        for process in psutil.process_iter():
            try:
                environment = process.environ()
                if environment.get("RAY_AUTH_TOKEN_PATH") != str((self.folder / "token").resolve()):
                    continue
                if name in (None, environment.get("BENCH_PLACE")) and program in " ".join(process.cmdline()):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def kill(self, program: str, name: str | None = None) -> None:
        """Kill such processes, of which there is one at least."""
        found = self.processes(program, name)
        assert found, program
        for process in found:
            process.kill()
        psutil.wait_procs(found, timeout=10)

    def run(self, harness: Harness, *more: str) -> subprocess.Popen[str]:
        """Begin a sweep that takes a while."""
        harness.environment |= {"BENCH_PATH": str(FAULTS), "BENCH_CACHE": str(self.folder / "cache-driver")}
        how = ("--at", self.address, "--token-file", str(self.folder / "token"), "--margin", "0.01%", "--launches", "6")
        return harness.start("fleet", "run", *CELLS, *how, *more)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    fleet = Fleet(folder=tmp_path_factory.mktemp("fleet"), address=f"127.0.0.1:{port}")
    try:
        fleet.start("head")
        fleet.start("one")
        yield fleet
    finally:
        for process in fleet.processes(""):
            process.kill()


def wait_for(condition: Callable[[], bool], what: str, limit_s: float = 90) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def ended(process: subprocess.Popen[str], harness: Harness, code: int = 0) -> None:
    with process:
        assert process.wait(timeout=180) == code, harness.stderr()
    assert "Traceback" not in harness.stderr()


def check(harness: Harness) -> set[str]:
    """No launch is stored twice, no two leases of a machine overlap, and every cell has its launches; the machines."""
    rows = harness.rows()
    assert set(rows) == set(CELLS)
    assert all(row["status"] == "ok" and row["num_launches"] >= 6 for row in rows.values())
    lines = harness.lines("launch")
    assert max(Counter(line["launch"] for line in lines).values()) == 1
    for place in {line["place"] for line in lines}:
        leases = sorted({tuple(line["lease_s"]) for line in lines if line["place"] == place})
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(leases))
    return {line["place"] for line in lines}


def test_two_machines_share_a_sweep(fleet: Fleet, harness: Harness) -> None:
    ended(fleet.run(harness), harness)

    assert check(harness) == {"head", "one"}
    listening = {
        connection.laddr.ip
        for process in fleet.processes("")
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening <= {"127.0.0.1", "::ffff:127.0.0.1"}


def test_a_driver_that_was_killed_goes_on(fleet: Fleet, harness: Harness) -> None:
    process = fleet.run(harness)
    wait_for(lambda: len(harness.lines("launch")) > 4, harness.stderr())
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {line["launch"] for line in harness.lines("launch")}

    ended(fleet.run(harness), harness)

    assert kept <= {line["launch"] for line in harness.lines("launch")}
    check(harness)


def test_work_of_a_machine_that_dies_goes_to_another(fleet: Fleet, harness: Harness) -> None:
    process = fleet.run(harness)
    wait_for(lambda: len(harness.lines("launch")) > 4, harness.stderr())
    fleet.kill("raylet/raylet", "one")

    ended(process, harness)

    check(harness)
    fleet.start("one")


def test_another_token_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    other = tmp_path / "token"
    other.write_text("0" * 64)
    command = [*BENCH, "fleet", "status", "--at", fleet.address, "--token-file", str(other)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert done.returncode == 2
    assert f"{fleet.address} refuses this machine" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_machine_with_other_code_takes_no_part(fleet: Fleet, harness: Harness, tmp_path: Path) -> None:
    """Such as one whose search path has another model."""
    model = tmp_path / "more" / "models" / "mine"
    model.mkdir(parents=True)
    (model / "task.py").write_text("# another model\n")
    harness.environment |= {"BENCH_PATH": f"{FAULTS}:{model.parents[1]}"}
    how = ("--at", fleet.address, "--token-file", str(fleet.folder / "token"))

    with harness.start("fleet", "run", CELLS[0], *how) as process:
        assert process.wait(timeout=120) == 2

    assert "takes no part: its harness, models or data sets differ" in harness.stderr()
    assert "no machine takes part" in harness.stderr()


def test_a_dead_head_is_one_line_and_the_same_command_goes_on(fleet: Fleet, harness: Harness) -> None:
    process = fleet.run(harness)
    wait_for(lambda: len(harness.lines("launch")) > 4, harness.stderr())
    fleet.kill("gcs_server")

    ended(process, harness, code=2)

    assert f"the head of the fleet at {fleet.address} is gone" in harness.stderr()
    for left in fleet.processes(""):
        left.kill()
    fleet.start("head")
    ended(fleet.run(harness), harness)
    check(harness)
