"""Confinement of a child process, set before any other code runs: memory limit, no network, death with its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_HIGHEST_PRIORITY = -20
CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000


def confine(*, parent_pid: int, memory_bytes: int | None, is_timed: bool) -> dict[str, bool]:
    """Confine this process, which must not have started a second thread yet.

    Args:
        parent_pid: identifier of the parent process, whose death kills this process: its keeper.
        memory_bytes: limit on private writable memory; allocations past it fail.
        is_timed: whether it is to run before other processes: they wait while inferences are timed, and only then.

    Returns:
        Which of `dies_with_parent`, `memory_limited`, `no_network` and `high_priority` this system allowed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    is_linux = sys.platform == "linux"
    return {
        "dies_with_parent": is_linux and _die_with(parent_pid),
        "memory_limited": is_linux and memory_bytes is not None and _limit_memory(memory_bytes),
        "no_network": is_linux and _leave_network(),
        "high_priority": is_timed and _come_first(),
    }


def _die_with(parent_pid: int) -> bool:
    done = ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0
    if os.getppid() != parent_pid:  # the parent died before the call
        os._exit(1)
    return done


def _limit_memory(memory_bytes: int) -> bool:
    """Limit private memory rather than address space, because frameworks reserve more address space than they use.

    RLIMIT_DATA counts private writable pages since Linux 4.7. Source: setrlimit(2).
    """
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        memory_bytes = min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is a row, not a core file
    return True


def _come_first() -> bool:
    """Raise the priority of this process, so that other processes do not interrupt an inference.

    A higher priority needs the privilege CAP_SYS_NICE. Where the system schedules by session, the priority of the
    session's group counts as well. Source: sched(7).
    """
    try:
        os.setpriority(os.PRIO_PROCESS, 0, _HIGHEST_PRIORITY)
    except OSError:
        return False
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_HIGHEST_PRIORITY))
    return True


def _leave_network() -> bool:
    """Move into a network namespace with no interface: a benchmark makes no connection, and a hostile model cannot."""
    libc = ctypes.CDLL(None)
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        return bool(libc.unshare(_CLONE_NEWNET) == 0)
    if libc.unshare(CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return False
    map_user(uid, gid)
    return True


def map_user(uid: int, gid: int) -> None:
    """Keep the user's identity in a new namespace: packages look the user up to name their cache folders."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with contextlib.suppress(OSError):
            Path("/proc/self", name).write_text(text)
