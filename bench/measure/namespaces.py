"""Namespaces of a forked worker: it sees no process but those that it starts, and so can signal and trace no other.

A worker that is a fork of a template runs as the same user, and would otherwise find the template and its other forks
by their numbers. Source: pid_namespaces(7), mount_namespaces(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

from bench.measure.confine import CLONE_NEWUSER, map_user

_PR_SET_PDEATHSIG = 1
_CLONE_NEWNS, _CLONE_NEWPID = 0x00020000, 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_MOVE, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x2000, 0x4000, 0x40000
_MNT_DETACH = 2
_ASIDE = b"/tmp"
"""A folder that every system has."""


def leave_processes() -> bool:
    """Have the next fork of this process be the first of a namespace of its own; whether the system allows that."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        return bool(libc.unshare(_CLONE_NEWPID) == 0)
    if libc.unshare(CLONE_NEWUSER | _CLONE_NEWPID) != 0:
        return False
    map_user(uid, gid)
    return True


def see_own_processes() -> bool:
    """Show in `/proc` the processes of this process's own namespace; whether the system allows that.

    What was there before is taken away where it can be, because a worker that has the right to could do the same with
    what hides it. Without that right it is locked, see mount_namespaces(7).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None) != 0:
        return False
    if libc.mount(b"proc", _ASIDE, b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None) != 0:  # needs the one before
        return False
    while libc.umount2(b"/proc", _MNT_DETACH) == 0:
        pass
    return bool(libc.mount(_ASIDE, b"/proc", None, _MS_MOVE, None) == 0)


def number_next(pid: int) -> None:
    """Give the next fork of this process a number in its namespace that no worker beside it has, where that can be.

    Packages name temporary files in folders that workers share by the number of their process.
    """
    with contextlib.suppress(OSError):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))


def die_with_parent() -> None:
    """Have the system kill this process when the process that forked it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def can_be_apart() -> bool:
    """Whether all of this works here, tried in a process that ends at once."""
    pid = os.fork()
    if pid == 0:
        done = 1
        try:
            if leave_processes():
                first = os.fork()
                if first == 0:
                    os._exit(0 if see_own_processes() else 1)
                done = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
        finally:
            os._exit(done)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
