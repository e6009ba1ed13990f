"""The lease of a machine: one holder at a time, in whichever process, and free again when the holder ends."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bench.measure import lease
from bench.measure.lease import LeaseError

HOLDER = "import time; from bench.measure import lease\nwith lease.hold(): print('held', flush=True); time.sleep(60)"


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_LEASE", str(tmp_path / "lock"))
    return tmp_path / "lock"


def test_another_process_keeps_the_lease_until_it_is_killed(lock: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LeaseError, match=r"another `bench` prepares or measures .*/lock"), lease.hold(wait_s=0.2):
            pass
        holder.kill()
    with lease.hold():
        pass


def test_any_user_may_lock_the_file(lock: Path) -> None:
    with lease.hold():
        assert stat.S_IMODE(lock.stat().st_mode) == lease.FREE_FOR_ALL


def test_a_link_in_place_of_the_file_is_refused(lock: Path) -> None:
    lock.symlink_to("/dev/null")
    with pytest.raises(LeaseError, match="cannot open"), lease.hold():
        pass
