"""Another user of a machine, who has not the token: nothing of a running fleet can be written, replaced or read."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from bench.api.loading import load_module
from support import deferred
from support.features import needs

deferred.importorskip("ray")

if TYPE_CHECKING:
    from conftest import Harness

pytestmark = [
    needs("fleet"),
    pytest.mark.thorough,
    pytest.mark.slow(seconds=30),
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser acts as another user"),
]
NODES = load_module(Path(__file__).parents[2] / "benchmarks" / "nodes.py")
FAULTS = Path(__file__).parents[1] / "faults"
NOBODY = 65534
NEIGHBOUR = (
    f"nobody = {NOBODY}"
    + """
import json, os, socket, sys

os.setgroups([])
os.setresgid(*3 * [nobody])
os.setresuid(*3 * [nobody])
assert os.getresuid() == (nobody, nobody, nobody)
paths, pids = json.load(sys.stdin)
done = []

def tries(what, path, action):
    try:
        action()
    except OSError:
        return
    done.append(f"{what} {path}")

def connect(path):
    with socket.socket(socket.AF_UNIX) as there:
        there.settimeout(1)
        there.connect(path)

def some_bytes(path):
    with open(path, "rb") as there:
        if not there.read(1):  # of a process that has ended Linux opens `maps` for everybody, and it is empty
            raise OSError("empty")

def replace(path):
    os.rename(path, path + ".old")
    os.symlink("/etc/hostname", path)

for path in paths:
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    tries("read", path, lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").close())
    tries("write", path, lambda: open(path, "ab").close())
    tries("change", path, lambda: os.chmod(path, 0o777))
    tries("truncate", path, lambda: os.truncate(path, 0))
    tries("create in", folder, lambda: open(os.path.join(folder, "planted"), "xb").close())
    tries("connect to", path, lambda: connect(path))
    tries("link", path, lambda: os.link(path, f"/tmp/planted-{os.getpid()}"))
    tries("remove", path, lambda: os.unlink(path))
    tries("replace", path, lambda: replace(path))
for pid in pids:
    for name in ("environ", "mem", "maps", "fd", "cwd"):
        path = f"/proc/{pid}/{name}"
        tries("read", path, lambda: os.listdir(path) if name in ("fd", "cwd") else some_bytes(path))
print(json.dumps(sorted(set(done))))
"""
)


class Fleet(NODES.Fleet):  # type: ignore[name-defined,misc]
    """A fleet whose folder other users may enter, as a home folder of many systems, and which has no private `/tmp`."""


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """A head and another machine, which the last test has leave."""
    folder = Path("/tmp", f"bt-{secrets.token_hex(3)}")
    folder.mkdir(mode=0o755)
    there = NODES.Fleet.at_free_port(folder, BENCH_PATH=str(FAULTS), RAY_TMPDIR=str(folder))
    fleet = Fleet(**vars(there))
    try:
        fleet.start("head")
        fleet.start("one")
        yield fleet
    finally:
        fleet.end()
        shutil.rmtree(folder)


def places(fleet: Fleet) -> set[str]:
    """All paths of Ray's folder, and all that the fleet's processes have opened to write or listen at."""
    (private,) = fleet.folder.glob("bench-fleet-*")
    found = {str(private), str(fleet.token), *map(str, private.rglob("*"))}
    for process in fleet.processes():
        with contextlib.suppress(psutil.Error):
            found |= {one.path for one in process.open_files() if one.mode != "r"}
            found |= {one.laddr for one in process.net_connections("unix") if str(one.laddr).startswith("/")}
            mapped = {one.path for one in process.memory_maps() if one.path.startswith(("/dev/shm/", "/tmp/"))}
            found |= {path for path in mapped if not path.startswith(f"{sys.prefix}/")}
    shared = {str(fleet.folder / f"lease-{name}") for name in ("head", "one")}  # a lock which all users take
    return {path for path in found if os.path.lexists(path)} - shared  # without those that have no name any more


def as_neighbour(paths: set[str], pids: list[int]) -> list[str]:
    """What another user can do to paths and processes; the interpreter starts before it becomes that user."""
    command = [sys.executable, "-I", "-c", NEIGHBOUR]
    told = json.dumps([sorted(paths), pids])
    done = subprocess.run(command, input=told, cwd="/", capture_output=True, text=True, check=True, timeout=60)
    found: list[str] = json.loads(done.stdout)
    return found


def test_a_neighbour_reaches_nothing_of_a_running_fleet(fleet: Fleet, harness: Harness) -> None:
    harness.environment |= fleet.of("driver")
    cell = "toy/null/native/raw/null/cpu/b1t1"
    with harness.start("fleet", "run", cell, *fleet.how(), "--launches", "3", "--margin", "50%") as process:
        assert process.wait(timeout=120) == 0, harness.stderr()
    assert harness.stderr().count("other users of this machine") == 0
    before = places(fleet)
    assert any(path.endswith("/sockets/plasma_store") for path in before)
    assert any(path.endswith("/logs/debug_state.txt") for path in before)
    assert any("core-driver" in path for path in before), "the logs of the driver"
    assert any("core-worker" in path for path in before)

    assert as_neighbour(before, [one.pid for one in fleet.processes()]) == []
    assert places(fleet) >= before
    assert stat.S_IMODE(fleet.token.stat().st_mode) == 0o600
    answers = fleet.bench("driver", "status", "--at", fleet.address)
    assert answers.stdout.count("is free") == 2, answers.stderr


def test_no_port_of_a_fleet_says_anything_without_the_token(fleet: Fleet) -> None:
    """But for the health check of gRPC, which tells that there is a server."""
    grpc = pytest.importorskip("grpc")
    ports = set()
    for process in fleet.processes():
        with contextlib.suppress(psutil.NoSuchProcess):  # one that an earlier sweep had may be ending
            listening = [one for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
            ports |= {one.laddr.port for one in listening}
    calls = [
        "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo",
        "/ray.rpc.InternalKVGcsService/InternalKVKeys",
        "/ray.rpc.JobInfoGcsService/GetAllJobInfo",
        "/ray.rpc.ActorInfoGcsService/GetAllActorInfo",
        "/ray.rpc.NodeManagerService/GetNodeStats",
        "/ray.rpc.NodeManagerService/ShutdownRaylet",
        "/ray.rpc.ObjectManagerService/Push",
        "/ray.rpc.CoreWorkerService/GetCoreWorkerStats",
        "/ray.rpc.CoreWorkerService/Exit",
    ]
    assert len(ports) >= 6, ports
    refused = set()
    for port in ports:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            for call in calls:
                with pytest.raises(grpc.RpcError) as error:
                    channel.unary_unary(call)(b"", timeout=10)
                if error.value.code() == grpc.StatusCode.UNAUTHENTICATED:
                    refused.add(call)
                else:  # of another server, or of one that speaks HTTP
                    assert error.value.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAVAILABLE)
        done = subprocess.run(
            ["curl", "--silent", "--http1.1", "--max-time", "5", f"http://127.0.0.1:{port}/metrics"],
            capture_output=True,
            check=False,
        )
        assert b"# HELP" not in done.stdout
    assert refused >= {call for call in calls if "CoreWorker" not in call}


def test_leaving_leaves_no_process(fleet: Fleet) -> None:
    """Not those either that name themselves anew."""
    own = fleet.processes()
    assert any("ray::DashboardAgent" in " ".join(process.cmdline()) for process in own)

    assert fleet.bench("one", "leave", "--at", fleet.address).returncode == 2, "for it takes no token"
    done = subprocess.run(
        [*NODES.BENCH, "fleet", "leave", "--at", fleet.address], env=fleet.of("one"), cwd=fleet.folder, check=False
    )

    assert done.returncode == 0
    assert not [process for process in own if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
