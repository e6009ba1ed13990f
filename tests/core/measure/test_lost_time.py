"""Time that workers lose to others, from a made-up /proc and from the kernel's own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.measure.lost_time import Watch

MS = 1_000_000


def show(proc: Path, stat: str | None, threads: Mapping[str, Mapping[str, str]]) -> None:
    """Write a made-up /proc: the first line of `stat`, and `schedstat` by process and thread."""
    if stat is not None:
        (proc / "stat").write_text(f"{stat}\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    for pid, tasks in threads.items():
        for thread, text in tasks.items():
            folder = proc / pid / "task" / thread
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "schedstat").write_text(text)


def test_shares_of_a_span(tmp_path: Path) -> None:
    before = {
        "self": {"1": f"{MS} 0 1\n"},
        "7": {"7": f"{5 * MS} {3 * MS} 9\n", "8": f"{MS} {MS} 2\n"},
        "9": {"9": f"{MS} 0 1\n"},
    }
    show(tmp_path, "cpu  100 20 30 4000 50 6 7 11 3 0", before)
    watch = Watch([7, 9], tmp_path)
    # Of process 7 a third thread has begun; process 9 ran and never waited.
    after = {
        "self": {"1": f"{5 * MS} {70 * MS} 1\n"},
        "7": {"7": f"{65 * MS} {13 * MS} 9\n", "8": f"{21 * MS} {MS} 2\n", "10": f"{10 * MS} {5 * MS} 1\n"},
        "9": {"9": f"{3 * MS} 0 1\n"},
    }
    # 150 user, 10 nice, 20 system, 3000 idle, 70 waiting for disks, 10 for interrupts, 10 stolen; guests are users.
    show(tmp_path, "cpu  250 30 50 7000 120 11 12 21 90 0", after)
    lost = watch.lost()
    assert lost.steal_share == 10 / 200
    assert lost.run_delay_shares == {7: 15 / 105, 9: 0.0}
    assert lost.most == pytest.approx(10 / 200 + 15 / 105)


def test_the_watching_process_may_watch_itself(tmp_path: Path) -> None:
    own = str(os.getpid())
    show(tmp_path, "cpu  0 0 0 0 0 0 0 0 0 0", {"self": {own: "0 0 0"}, own: {own: "0 0 0"}})
    watch = Watch([os.getpid()], tmp_path)
    # 200 ms of work in all, of which 150 ms are its own; it waited for 25 ms while another program ran.
    times = {own: f"{150 * MS} {25 * MS} 9"}
    show(tmp_path, "cpu  20 0 0 0 0 0 0 0 0 0", {"self": times, own: times})
    assert watch.lost().most == pytest.approx(25 / 175)


def test_threads_of_a_worker_that_wait_for_each_other_are_not_what_others_take(tmp_path: Path) -> None:
    show(tmp_path, "cpu  0 0 0 0 0 0 0 0 0 0", {"7": {"7": "0 0 0"}, "9": {"9": "0 0 0"}})
    watch = Watch([7, 9], tmp_path)
    # 200 ms of work in all, of which 190 ms are the workers'; they ran and waited for 400 ms.
    show(
        tmp_path,
        "cpu  20 0 0 0 0 0 0 0 0 0",
        {"7": {"7": f"{100 * MS} {200 * MS} 9"}, "9": {"9": f"{90 * MS} {10 * MS} 9"}},
    )
    shares = watch.lost().run_delay_shares
    assert shares == {7: pytest.approx(10 / 400), 9: pytest.approx(10 / 400)}
    # Ticks are counted by chance: no other program ran.
    show(tmp_path, "cpu  18 0 0 0 0 0 0 0 0 0", {})
    assert watch.lost().run_delay_shares == {7: 0.0, 9: 0.0}


def test_thread_that_ended_is_left_out(tmp_path: Path) -> None:
    show(tmp_path, "cpu  0 0 0 0 0 0 0 0 0 0", {"7": {"7": "10 0 1", "8": "1000 1000 1"}})
    watch = Watch([7], tmp_path)
    (tmp_path / "7/task/8/schedstat").unlink()
    show(tmp_path, "cpu  9 0 0 0 0 0 0 0 0 0", {"7": {"7": "20 10 1"}})
    assert watch.lost().run_delay_shares == {7: 0.5}


@pytest.mark.parametrize("text", [None, "0 0 0\n", "damaged"])
def test_kernel_that_counts_no_run_delay(tmp_path: Path, text: str | None) -> None:
    threads = {"7": {"7": text}} if text is not None else {}
    show(tmp_path, "cpu  1 1 1 1 1 1 1 1 0 0", threads)
    watch = Watch([7], tmp_path)
    show(tmp_path, "cpu  5 1 1 1 1 1 1 5 0 0", threads)
    lost = watch.lost()
    assert (lost.steal_share, lost.run_delay_shares, lost.most) == (0.5, {7: None}, None)


def test_system_without_proc(tmp_path: Path) -> None:
    lost = Watch([7], tmp_path).lost()
    assert (lost.steal_share, lost.run_delay_shares, lost.most) == (None, {7: None}, None)


def test_machine_without_work_lost_nothing(tmp_path: Path) -> None:
    show(tmp_path, "cpu  1 1 1 1 1 1 1 1 0 0", {})
    assert Watch([], tmp_path).lost().steal_share == 0.0


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel keeps no schedstat")
def test_process_that_shares_its_core_loses_time() -> None:
    core = min(os.sched_getaffinity(0))
    code = f"import os\nos.sched_setaffinity(0, {{{core}}})\nprint(flush=True)\nwhile True: pass"
    command = [sys.executable, "-c", code]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as one,
        subprocess.Popen(command, stdout=subprocess.PIPE) as two,
    ):
        for process in (one, two):
            assert process.stdout is not None
            process.stdout.readline()
        alone, both = Watch([one.pid]), Watch([one.pid, two.pid])
        time.sleep(2)
        share = alone.lost().run_delay_shares[one.pid]
        assert both.lost().run_delay_shares.keys() == {one.pid, two.pid}
        one.kill()
        two.kill()
    assert share is not None
    assert share > 0.3
