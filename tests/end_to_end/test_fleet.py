"""A fleet of nodes on this machine: they share a sweep, and it goes on after the death of any of its processes."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from bench.api.loading import load_module
from support import deferred
from support.features import is_there

deferred.importorskip("ray")
if not is_there("fleet"):
    pytest.skip("the feature fleet is not there", allow_module_level=True)

from bench.features.fleet import cluster, token  # noqa: E402

if TYPE_CHECKING:
    from conftest import Harness

pytestmark = [pytest.mark.slow(seconds=30), pytest.mark.timeout(600), pytest.mark.thorough]
NODES = load_module(Path(__file__).parents[2] / "benchmarks" / "nodes.py")
FAULTS = Path(__file__).parents[1] / "faults"
CELLS = [
    f"toy/null/native/{variant}/null/cpu/{sizes}" for sizes in ("b1t1", "b2t1", "b4t1") for variant in ("raw", "fewer")
]
FEW = CELLS[:4]
MOST = 6


class Fleet(NODES.Fleet):  # type: ignore[name-defined,misc]
    """A fleet on which tests run sweeps."""

    def run(self, harness: Harness, *more: str, cells: Sequence[str] = FEW, launches: int = 4) -> subprocess.Popen[str]:
        """Begin a sweep of so many blocks: half of the cells times the launches."""
        harness.environment |= {"BENCH_PATH": str(FAULTS), "BENCH_CACHE": str(self.folder / "cache-driver")}
        settings = ("--margin", "0.01%", "--launches", str(launches))
        return harness.start("fleet", "run", *cells, *self.how(), *settings, *more)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    there = NODES.Fleet.at_free_port(tmp_path_factory.mktemp("fleet"), BENCH_PATH=str(FAULTS))
    fleet = Fleet(**vars(there))
    try:
        fleet.start("head")
        fleet.start("one")
        fleet.start("two")
        yield fleet
    finally:
        fleet.end()


def wait_for(condition: Callable[[], bool], harness: Harness, limit_s: float = 180) -> None:
    """Wait until something is so; a failure shows all that the command has written by then."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, harness.stderr()
        time.sleep(0.05)


def ended(process: subprocess.Popen[str], harness: Harness, code: int = 0) -> None:
    with process:
        assert process.wait(timeout=180) == code, harness.stderr()
    assert "Traceback" not in harness.stderr()


def check(harness: Harness, cells: Sequence[str] = FEW, launches: int = 4) -> set[str]:
    """No launch is stored twice, no two leases of a machine overlap, and every cell has its launches; the machines."""
    rows = harness.rows()
    assert set(rows) == set(cells)
    states = {path: (row["status"], row["num_launches"] >= launches, row["reason"]) for path, row in rows.items()}
    assert {state[:2] for state in states.values()} == {("ok", True)}, (states, harness.stderr())
    lines = harness.lines("launch")
    assert max(Counter(line["launch"] for line in lines).values()) == 1
    for place in {line["place"] for line in lines}:
        leases = sorted({tuple(line["lease_s"]) for line in lines if line["place"] == place})
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(leases))
    return {line["place"] for line in lines}


def listens_at(process: psutil.Process) -> set[str]:
    """Addresses at which a process listens; of a process that has just ended, none."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return {there.laddr.ip for there in process.net_connections() if there.status == psutil.CONN_LISTEN}
    return set()


def test_machines_share_a_sweep(fleet: Fleet, harness: Harness) -> None:
    ended(fleet.run(harness, cells=CELLS, launches=MOST), harness)

    assert check(harness, CELLS, MOST) == {"head", "one", "two"}
    listening = set().union(*map(listens_at, fleet.processes("")))
    assert listening
    assert listening <= {"127.0.0.1", "::ffff:127.0.0.1"}


def test_a_driver_that_was_killed_goes_on(fleet: Fleet, harness: Harness) -> None:
    process = fleet.run(harness)
    wait_for(lambda: len(harness.lines("launch")) > 4, harness)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {line["launch"] for line in harness.lines("launch")}

    ended(fleet.run(harness), harness)

    assert kept <= {line["launch"] for line in harness.lines("launch")}
    check(harness)


def test_work_of_a_machine_that_dies_goes_to_another(fleet: Fleet, harness: Harness) -> None:
    process = fleet.run(harness)
    wait_for(lambda: len(harness.lines("launch")) > 4, harness)
    assert fleet.send(signal.SIGKILL, "raylet/raylet", "one")

    ended(process, harness)

    check(harness)
    fleet.start("one")


def test_work_of_a_machine_that_hangs_goes_to_another(fleet: Fleet, harness: Harness) -> None:
    process = fleet.run(harness)
    wait_for(lambda: len(harness.lines("launch")) > 4, harness)
    assert fleet.send(signal.SIGSTOP, name="one")

    ended(process, harness)

    check(harness)
    fleet.send(signal.SIGKILL, name="one")
    fleet.start("one")


def test_a_machine_whose_cache_cannot_be_written_takes_no_part(fleet: Fleet, harness: Harness) -> None:
    """As one whose disk is full."""
    cache = fleet.folder / "cache-one"
    shutil.rmtree(cache, ignore_errors=True)
    cache.write_text("no folder")

    ended(fleet.run(harness), harness)

    cache.unlink()
    assert check(harness) == {"head", "two"}
    assert f"one takes no part any more: File exists ({cache})" in harness.stderr()


def test_ctrl_c_keeps_what_was_measured_and_the_same_command_goes_on(fleet: Fleet, harness: Harness) -> None:
    process = fleet.run(harness, "--launches", "1000")
    wait_for(lambda: len(harness.lines("launch")) > 4, harness)
    process.send_signal(signal.SIGINT)
    sent_s = time.monotonic()

    ended(process, harness, code=130)

    assert time.monotonic() - sent_s < 10
    assert "launches kept; the same command goes on" in harness.stderr()
    ended(fleet.run(harness), harness)
    check(harness)


def test_each_kind_of_machine_runs_the_whole_and_portable_files_are_made_once(fleet: Fleet, harness: Harness) -> None:
    """A machine with one core less is of another kind."""
    core = sorted(psutil.Process().cpu_affinity() or [0])[0]
    fleet.start("other", before=("taskset", "--cpu-list", str(core)))
    caches = [fleet.folder / f"cache-{name}" for name in ("head", "one", "two", "other")]
    for cache in caches:
        shutil.rmtree(cache, ignore_errors=True)
    try:
        ended(fleet.run(harness, "--launches", "1", "--margin", "50%"), harness)
    finally:
        fleet.send(signal.SIGKILL, name="other")

    lines = harness.lines("launch")
    kinds = {path.parent.name for path in harness.files()}
    assert len(kinds) == 2
    assert {line["place"] for line in lines} >= {"other"}
    *own, other = (
        {path.parent.name: json.loads(path.read_text()) for path in cache.glob("*/entry.json")} for cache in caches
    )
    made = {key: entry for entries in own for key, entry in entries.items() if "format" in entry}
    assert len(made) == 2, "an export, and a variant of it"
    assert {key: other.get(key) for key in made} == made, "with the seconds that it took"


def test_another_token_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    other = tmp_path / "token"
    other.touch(mode=0o600)
    other.write_text("0" * 64)
    command = [*NODES.BENCH, "fleet", "status", "--at", fleet.address, "--token-file", str(other)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert done.returncode == 2
    assert done.stderr.startswith(f"bench: {fleet.address} refuses this machine: the head takes another token (")
    assert done.stderr.count("\n") == 1


def test_a_second_head_at_the_port_of_a_fleet_is_refused(fleet: Fleet) -> None:
    done = fleet.bench("again", "up", "--port", fleet.address.partition(":")[2])

    assert done.returncode == 2
    assert f"something answers at {fleet.address} already" in done.stderr


def test_a_machine_with_another_package_or_a_name_twice_takes_no_part(
    fleet: Fleet, harness: Harness, tmp_path: Path
) -> None:
    package = tmp_path / "more" / "unheard_of-1.5.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: unheard-of\nVersion: 1.5\n")
    for _ in range(2):
        fleet.start("odd", before=("env", f"PYTHONPATH={package.parent}:{os.environ.get('PYTHONPATH', '')}"))
    try:
        ended(fleet.run(harness, "--launches", "1", "--margin", "50%"), harness)
    finally:
        fleet.send(signal.SIGKILL, name="odd")

    assert "odd takes no part: unheard-of 1.5 there, none here" in harness.stderr()
    assert "odd takes no part: another machine has this name" in harness.stderr()
    assert "odd" not in {line["place"] for line in harness.lines("launch")}


def test_a_cluster_that_ray_started_serves_as_it_is(harness: Harness, tmp_path: Path) -> None:
    """A single node, without a lease of ours: it is leased by Ray's own resource of the node."""
    other = Fleet(**vars(NODES.Fleet.at_free_port(tmp_path, BENCH_PATH=str(FAULTS))))
    token.make(other.token)
    variables = other.of("ours") | cluster.environment(other.token)
    port = other.address.partition(":")[2]
    start = (*cluster.RAY, "start", "--head", "--port", port, "--node-ip-address", "127.0.0.1", "--num-cpus", "2")
    try:
        subprocess.run([*start, "--include-dashboard=false"], env=variables, check=True, capture_output=True)
        process = other.run(harness, "--launches", "1000")
        wait_for(lambda: "measures" in other.bench("driver", "status", "--at", other.address).stdout, harness)
        wait_for(lambda: len(harness.lines("launch")) > 0, harness)
        process.send_signal(signal.SIGINT)
        ended(process, harness, code=130)
        after = other.bench("driver", "status", "--at", other.address)
    finally:
        other.end()

    assert "is free" in after.stdout
    assert {row["status"] for row in harness.rows().values()} == {"ok"}
    leases = sorted({tuple(line["lease_s"]) for line in harness.lines("launch")})
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(leases))


def test_eight_machines(harness: Harness, tmp_path: Path) -> None:
    other = Fleet(**vars(NODES.Fleet.at_free_port(tmp_path, BENCH_PATH=str(FAULTS))))
    names = ["head", *(f"m{number}" for number in range(1, 8))]
    try:
        for name in names:
            other.start(name)
        ended(other.run(harness, cells=CELLS, launches=MOST), harness)
    finally:
        other.end()

    assert check(harness, CELLS, MOST) == set(names), harness.stderr()


def test_a_machine_with_other_code_takes_no_part(fleet: Fleet, harness: Harness, tmp_path: Path) -> None:
    """Such as one whose search path has another model."""
    model = tmp_path / "more" / "models" / "mine"
    model.mkdir(parents=True)
    (model / "task.py").write_text("# another model\n")
    harness.environment |= {"BENCH_PATH": f"{FAULTS}:{model.parents[1]}"}

    with harness.start("fleet", "run", CELLS[0], *fleet.how()) as process:
        assert process.wait(timeout=120) == 2

    assert "takes no part: its harness, models or data sets differ" in harness.stderr()
    assert "no machine takes part" in harness.stderr()


def test_a_dead_head_is_one_line_and_the_same_command_goes_on(fleet: Fleet, harness: Harness) -> None:
    process = fleet.run(harness)
    wait_for(lambda: len(harness.lines("launch")) > 4, harness)
    assert fleet.send(signal.SIGKILL, "gcs_server")

    ended(process, harness, code=2)

    assert f"the head of the fleet at {fleet.address} is gone" in harness.stderr()
    fleet.end()
    fleet.start("head")
    ended(fleet.run(harness), harness)
    check(harness)
