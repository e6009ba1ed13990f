"""The keeper of one worker: it starts the worker, ends all that the worker leaves, and removes the worker's folder.

It stands between this project's process and the worker, and outlives a parent that is killed: when the parent dies,
closes the lifeline or sends SIGTERM, the keeper kills the worker and every process below it. As a subreaper it becomes
the parent of what the worker started in other sessions. Source: prctl(2), PR_SET_CHILD_SUBREAPER.

Run as `python -I -S keeper.py LIFELINE REPORT FOLDER COMMAND...`. It imports nothing but what it needs of the standard
library, and no pathlib or contextlib, because every worker waits for it to start.
"""

from __future__ import annotations

import itertools
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_CHILD_SUBREAPER = 36
MOST_LOG_BYTES = 64 << 20
_LOOK_MS = 1000
"""Time between two looks at the size of the log."""
PAUSE_S = 0.002
_MOST_PAUSES = 50
"""Pauses for the worker's own end, before what it left is looked for."""


def keep(lifeline: int, report: int, folder: str, start: Callable[[], int]) -> int:
    """Keep one worker until it ends or is to end.

    Args:
        lifeline: reading end of a pipe, whose end says that the parent is gone.
        report: descriptor to which the worker's process identifier is written.
        folder: the worker's own folder of temporary files.
        start: starts the worker and gives its process identifier.

    Returns:
        The worker's return code as `subprocess` has it.
    """
    _adopt_orphans()
    for descriptor in (lifeline, report):
        os.set_inheritable(descriptor, False)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    worker = start()
    os.write(report, b"%d\n" % worker)
    os.close(report)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):  # they are the worker's: the parent sees when the worker closes them
        os.dup2(nothing, descriptor)
    poll = select.poll()
    poll.register(lifeline)
    poll.register(woken, select.POLLIN)
    code = None
    while code is None and not signals:
        ready = {descriptor for descriptor, _ in poll.poll(_LOOK_MS)}
        if woken in ready:
            os.read(woken, 1 << 12)
        _cut_log()
        code, _ = _reap(worker)
        if lifeline in ready:
            break
    code = _end(worker, code)
    _remove(folder)
    return code


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _start(command: list[str]) -> int:
    """Start a program as the worker, with the keeper's process identifier as a further argument."""
    keeper = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        begin_worker()
        os.execv(command[0], [*command, str(keeper)])
    finally:
        os._exit(127)


def begin_worker() -> None:
    """Give this process, a fork of a keeper, a session of its own and the usual handlers of signals."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()


def _cut_log() -> None:
    """Drop a log that has grown too large; the next line begins it anew, because it is open for appending."""
    if os.fstat(2).st_size > MOST_LOG_BYTES:
        os.ftruncate(2, 0)


def _reap(worker: int) -> tuple[int | None, bool]:
    """Take the return codes of ended children: that of the worker, if it is among them, and whether any child is left.

    A code is negative where a signal ended the worker.
    """
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code, False
        if pid == 0:
            return code, True
        if pid == worker:
            code = os.waitstatus_to_exitcode(status)


def _end(worker: int, code: int | None) -> int:
    """Kill the worker and all processes below this one, and wait until none is left."""
    if code is None:
        _kill(worker, signal.SIGKILL)
    for attempt in itertools.count():
        ended, has_children = _reap(worker)
        code = code if ended is None else ended
        if not has_children:
            break
        if code is None and attempt < _MOST_PAUSES:  # most workers leave nothing that would have to be looked for
            time.sleep(PAUSE_S)
            continue
        known: set[int] = set()
        while (below := _descendants() - known) and sys.platform == "linux":
            known |= below  # stopped first, for one that runs may start others meanwhile
            for pid in below:
                _kill(pid, signal.SIGSTOP)
        for pid in known or {worker}:
            _kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)
    return -signal.SIGKILL if code is None else code


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # it has ended
        pass


def _descendants() -> set[int]:
    """The living processes below this one."""
    parents = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            if state != b"Z":
                parents[int(name)] = int(parent)
    descendants: set[int] = set()
    new = {os.getpid()}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - descendants
        descendants |= new
    return descendants


def _remove(folder: str) -> None:
    """Remove the worker's folder, folders without permissions included."""
    try:
        os.rmdir(folder)
    except OSError:
        import shutil  # only here: it takes longer to import than all the others

        for place, names, _ in os.walk(folder):
            for name in names:
                if not os.path.islink(path := os.path.join(place, name)):
                    os.chmod(path, 0o700)
        shutil.rmtree(folder, ignore_errors=True)


def _end_as(code: int) -> None:
    """End this process as the worker ended, without a core file of its own."""
    if code < 0:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        signal.pause()
    os._exit(code)


if __name__ == "__main__":
    _end_as(keep(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], lambda: _start(sys.argv[4:])))
