"""The cluster of Ray that a fleet is: started with token authentication, joined, connected to, and asked about it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from bench.api.errors import InputError
from bench.features.fleet import facts, private, work
from bench.features.fleet.place import FleetError, Machine
from bench.features.fleet.token import safe

LOOPBACK = "127.0.0.1"
_PORT = 6399
LEASE = "inferometer-lease"
"""The resource of Ray that a lease takes; a machine that joined has one."""
NAME = "BENCH_PLACE"
"""The environment variable by which the processes of a machine know its name in the fleet."""
FLEET, START = "BENCH_FLEET", "BENCH_FLEET_START"
"""The variables by which they are known as those of a head at an address, and of one start of a machine."""
_ANSWER_S = 60.0
"""Time in which a machine tells what it is; a machine that does not takes no part.

A new process of Ray imports Ray and the harness before it answers: 3 s on an idle machine, 20 s where it is loaded. A
machine that hangs is taken for dead sooner, by `_LIVENESS`, and is waited for no longer.
"""
_PROBE_S = 3.0
_MOST_PROBES = 5
_STORE_BYTES = 200 * 2**20
"""Memory for Ray's object store; what does not fit is spilled to the disk."""
_LIVENESS = {
    "RAY_health_check_period_ms": "2000",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "4",
    "RAY_grpc_client_keepalive_time_ms": "10000",
    "RAY_grpc_client_keepalive_timeout_ms": "15000",
}
"""A machine that answers nothing for half a minute is taken for dead. By Ray's own settings the head says so after a
minute, and whoever waits for a process there learns it by the next message that keeps its connection alive, after five.
"""
_WRONG_TOKEN = "InvalidAuthToken"
_TOKEN_FIX = "--token-file names a copy of the file that the head was started with"
RAY = (sys.executable, "-P", "-c", "from bench.features.fleet.ray_command import main; main()")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Refused:
    """A machine that takes no part, and why."""

    name: str
    reason: str


def environment(token: Path) -> dict[str, str]:
    """The variables by which Ray asks for the token, tells nobody of its use, and leaves its processes as they are.

    Else it hides graphics processors, gives its processes a lower priority, ends them by its own measure of memory, and
    starts another cluster where this one is gone, and overwrites the variables by which its processes are known.

    Raises:
        InputError: the token cannot be read, or others may know it.
    """
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(safe(token)),
        "RAY_AUTH_TOKEN": "",  # which would come before the file
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_worker_niceness": "0",
        "RAY_worker_oom_score_adjustment": "0",
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_ENABLE_AUTO_CONNECT": "0",
        "SPT_NOENV": "1",
        **_LIVENESS,
    }


def up(listen: str, port: int, token: Path, name: str) -> None:
    """Start the head of a fleet on this machine, which offers itself, too.

    Raises:
        FleetError: the port is in use, or Ray does not start.
        InputError: the token cannot be read, or other users may know it or write to the folder of Ray.
    """
    if is_there(listen, port):
        raise FleetError(
            f"something answers at {listen}:{port} already",
            fix="`bench fleet leave` ends the fleet of this machine, and --port names another port",
        )
    how = ["--head", "--port", str(port), "--include-dashboard=false"]
    _start(how, f"{listen}:{port}", listen, token, name)


def join(address: str, token: Path, name: str, listen: str) -> None:
    """Offer this machine to the fleet whose head is at an address.

    Raises:
        FleetError: there is no head at the address, or Ray does not start.
        InputError: the token cannot be read, or other users may know it or write to the folder of Ray.
    """
    host, port = parts_of(address)
    if not is_there(host, port):
        raise FleetError(f"nothing answers at {address}", fix="`bench fleet up` starts a fleet there")
    _start(["--address", address], address, listen, token, name)


def _start(how: Sequence[str], address: str, listen: str, token: Path, name: str) -> None:
    me, folder = facts.here(), private.folder()
    published = {LEASE: 1, f"kind/{me.kind}": 1, **{f"runtime/{each}": 1 for each in me.runtimes}}
    command = [
        *(*RAY, "start", *how, "--node-ip-address", listen, "--node-name", name, "--disable-usage-stats"),
        *("--num-cpus", str(me.machine["num_cores"]), "--object-store-memory", str(_STORE_BYTES)),
        *("--temp-dir", str(folder / "ray"), "--resources", json.dumps(published)),
    ]
    marks = {NAME: name, FLEET: address, START: secrets.token_hex(8)}
    variables = {**os.environ, **environment(token), "RAY_TMPDIR": str(folder), **marks}
    done = None
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, umask=private.UMASK)
    finally:  # of a start that failed or was stopped, nothing stays
        if done is None or done.returncode:
            _end({START: marks[START]})
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip() or "it says nothing"
        if _WRONG_TOKEN in said:
            raise FleetError("the head takes another token", fix=_TOKEN_FIX)
        raise FleetError(f"Ray does not start: {said.splitlines()[-1]}")


def leave(address: str | None = None) -> int:
    """End all processes of this user's fleets on this machine, and no other cluster of Ray.

    Args:
        address: of the head of the fleet that is left; None for all fleets.

    Returns:
        How many there were.
    """
    return _end({} if address is None else {FLEET: address})


def _end(marks: Mapping[str, str]) -> int:
    """End the processes of fleets that have such variables, and those they start meanwhile; how many there were."""
    num_ended = 0
    for _ in range(_MOST_PROBES):
        own = [process for process in psutil.process_iter() if _is_of_fleet(process, marks)]
        for process in own:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(own, timeout=_PROBE_S)
        num_ended += len(own)
        if not own:
            break
    return num_ended


def _is_of_fleet(process: psutil.Process, marks: Mapping[str, str]) -> bool:
    """Whether a process of this user has the name of a machine in a fleet, and such variables, from its start."""
    with contextlib.suppress(psutil.Error):
        if process.pid != os.getpid() and process.uids().effective == os.geteuid():
            return NAME in (variables := process.environ()) and marks.items() <= variables.items()
    return False


def default_name() -> str:
    """A name for this machine in a fleet that tells neither its host nor its user, and stays the same."""
    return "m-" + hashlib.sha256(f"{socket.gethostname()} {facts.here().kind}".encode()).hexdigest()[:6]


def parts_of(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`.

    Raises:
        InputError: it is no such address.
    """
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdigit() and int(port) < 2**16):
        raise InputError(f"{address!r} is no address", fix=f"write HOST:PORT, as {LOOPBACK}:{_PORT}")
    return host, int(port)


def is_there(host: str, port: int) -> bool:
    """Whether something answers at an address."""
    try:
        with socket.create_connection((host, port), timeout=_PROBE_S):
            return True
    except OSError:
        return False


def connect(address: str, token: Path) -> str | None:
    """Be a driver of the fleet whose head is at an address, from a machine that is part of it, until the process ends.

    Nothing disconnects it: Ray ends a process with an error that calls it after its shutdown, as sweeps in other
    threads may, or whose head is gone by then. So the process is to end at once, see `bench.cli.stopping`.

    Returns:
        What is unsafe about the folder of Ray, which `bench fleet` did not make; None where nothing is.

    Raises:
        FleetError: there is no head, it takes another token, or this machine has not joined.
        InputError: the token cannot be read.
    """
    host, port = parts_of(address)
    if not is_there(host, port):
        raise FleetError(
            f"nothing answers at {address}", fix="the same command goes on once its head is there: `bench fleet up`"
        )
    os.environ.update(environment(token))
    import ray

    from bench.features.fleet import ray_command

    ray_command.keep_loopback()
    try:
        with _private_files(), _silence():  # of Ray's C++ code, which repeats for 20 s that a token is wrong
            ray.init(address=address, log_to_driver=False, configure_logging=True, logging_level=logging.CRITICAL)
    except (ConnectionError, ray.exceptions.RayError) as error:
        if _WRONG_TOKEN in "".join(traceback.format_exception(error)):
            raise FleetError(f"{address} refuses this machine: the head takes another token", fix=_TOKEN_FIX) from error
        raise FleetError(
            f"{address} refuses this machine: {_line(error)}", fix="`bench fleet join` offers this machine first"
        ) from error
    if private.is_closed(Path(ray._private.worker._global_node.get_session_dir_path())):
        return None
    return (
        f"other users of this machine may write to Ray's folder of the fleet at {address}; one that `bench fleet up` "
        "and `join` start now has a folder of its own"
    )


@contextlib.contextmanager
def _private_files() -> Iterator[None]:
    """Let files that are made meanwhile be for this user alone."""
    mask = os.umask(private.UMASK)
    try:
        yield
    finally:
        os.umask(mask)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Let nothing be written to the standard error stream, by this process or its libraries."""
    stream, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(stream, 2)
        os.close(stream)
        os.close(nothing)


def machines() -> tuple[list[Machine], list[Refused]]:
    """The machines of the fleet that is connected to, and those that take no part.

    A machine takes part where its harness, models and data sets are those of this one. Of machines of one kind, those
    take part whose packages are the same: as here where this machine is of that kind, or as on most of them.
    """
    import ray

    me = facts.here()
    nodes = [node for node in ray.nodes() if node["Alive"]]
    refs = {node["NodeID"]: _pinned(work.tell, node["NodeID"]).remote() for node in nodes}
    ready, _ = ray.wait(list(refs.values()), num_returns=len(refs), timeout=_ANSWER_S)
    members: list[Machine] = []
    refused: list[Refused] = []
    for node in nodes:
        name, ref = node["NodeName"] or node["NodeID"][:8], refs[node["NodeID"]]
        if ref not in ready:
            refused.append(Refused(name=name, reason=f"it does not answer in {_ANSWER_S:.0f} s"))
            continue
        try:
            there: facts.Facts = ray.get(ref)
        except Exception as error:  # whatever it lacks: the module, the package, itself
            refused.append(Refused(name=name, reason=f"it cannot tell what it is: {_line(error)}"))
            continue
        if there.code != me.code:
            refused.append(Refused(name=name, reason=str(there.difference(me))))
            continue
        if name in {machine.name for machine in members}:
            refused.append(Refused(name=name, reason="another machine has this name, too: `bench fleet join --name`"))
            continue
        lease = LEASE if LEASE in node["Resources"] else f"node:{node['NodeManagerAddress']}"
        members.append(Machine(node=node["NodeID"], name=name, lease=lease, facts=there))
    return _alike(members, me, refused)


def _alike(machines: Sequence[Machine], me: facts.Facts, refused: list[Refused]) -> tuple[list[Machine], list[Refused]]:
    """Those machines of each kind whose packages are the same, and the others with what differs."""
    kinds: dict[str, list[Machine]] = {}
    for machine in machines:
        kinds.setdefault(machine.facts.kind, []).append(machine)
    participants: list[Machine] = []
    for kind, members in kinds.items():
        sets = [tuple(sorted(member.facts.packages.items())) for member in members]
        common = me if me.kind == kind else members[sets.index(max(sets, key=sets.count))].facts
        for member in members:
            if (differs := member.facts.difference(common)) is None:
                participants.append(member)
            else:
                refused.append(Refused(name=member.name, reason=differs))
    return participants, refused


def living() -> frozenset[str]:
    """Identifiers of the nodes that Ray takes for alive."""
    import ray

    return frozenset(node["NodeID"] for node in ray.nodes() if node["Alive"])


def leased(machines: Sequence[Machine]) -> frozenset[str]:
    """Identifiers of those machines that work now."""
    import ray

    free = ray._private.state.available_resources_per_node()
    return frozenset(
        machine.node for machine in machines if machine.node in free and free[machine.node].get(machine.lease, 0) < 1
    )


def watch(address: str, lost: Callable[[], None]) -> threading.Thread:
    """Call a function once the head no longer answers: Ray itself takes a minute to tell, and ends the process."""
    host, port = parts_of(address)

    def run() -> None:
        failed = 0
        while failed < _MOST_PROBES:
            time.sleep(_PROBE_S / _MOST_PROBES)
            failed = 0 if is_there(host, port) else failed + 1
        lost()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _pinned(function: Callable[..., Any], node: str) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    pinned = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    return ray.remote(num_cpus=0, max_retries=0)(function).options(scheduling_strategy=pinned)


def _line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
