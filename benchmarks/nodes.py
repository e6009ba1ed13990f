"""A fleet of simulated machines: nodes of Ray on this machine, each with a cache and a lease of its own."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

BENCH = (sys.executable, "-P", "-c", "from bench.cli.main import main; main()")
START_S = 120.0


@dataclasses.dataclass
class Fleet:
    """A head and further nodes.

    Attributes:
        folder: holds the token, and the caches and leases of the nodes.
        address: of the head.
        environment: more variables of all commands, such as `BENCH_PATH`.
    """

    folder: Path
    address: str
    environment: dict[str, str]

    @staticmethod
    def at_free_port(folder: Path, **environment: str) -> Fleet:
        """A fleet that has no node yet, at a port that is free now."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return Fleet(folder=folder, address=f"127.0.0.1:{free.getsockname()[1]}", environment=environment)

    @property
    def token(self) -> Path:
        """The file of the token."""
        return self.folder / "token"

    def how(self) -> tuple[str, ...]:
        """Arguments that name the fleet."""
        return ("--at", self.address, "--token-file", str(self.token))

    def of(self, name: str) -> dict[str, str]:
        """The environment of a machine with this name."""
        paths = {"BENCH_LEASE": f"lease-{name}", "BENCH_CACHE": f"cache-{name}"}
        return {**os.environ, **self.environment, **{key: str(self.folder / value) for key, value in paths.items()}}

    def bench(self, name: str, *arguments: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Run `bench fleet` as on a machine with this name.

        Args:
            name: the machine.
            arguments: of the command.
            before: a command that runs it, such as `taskset`.
        """
        command = [*before, *BENCH, "fleet", *arguments, "--token-file", str(self.token)]
        return subprocess.run(
            command, env=self.of(name), cwd=self.folder, capture_output=True, text=True, timeout=START_S, check=False
        )

    def start(self, name: str, *, before: Sequence[str] = ()) -> None:
        """Start the head, or a node that joins it.

        Raises:
            RuntimeError: it does not start.
        """
        how = ("up", "--port", self.address.partition(":")[2]) if name == "head" else ("join", self.address)
        done = self.bench(name, *how, "--name", name, before=before)
        if done.returncode:
            raise RuntimeError(done.stderr)

    def processes(self, program: str = "", name: str | None = None) -> list[psutil.Process]:
        """The processes of this fleet, on one of its machines if it is named, whose command has a word."""
        found = []
        for process in psutil.process_iter():
            try:
                environment = process.environ()
                if environment.get("RAY_AUTH_TOKEN_PATH") != str(self.token.resolve()):
                    continue
                if name in (None, environment.get("BENCH_PLACE")) and program in " ".join(process.cmdline()):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def send(self, number: signal.Signals, program: str = "", name: str | None = None) -> int:
        """Send a signal to such processes; returns how many there were."""
        found = self.processes(program, name)
        for process in found:
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                continue
        if number == signal.SIGKILL:
            psutil.wait_procs(found, timeout=10)
        return len(found)

    def end(self) -> None:
        """Kill all of its processes."""
        self.send(signal.SIGKILL)
