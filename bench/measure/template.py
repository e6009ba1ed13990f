"""The program of a template: it imports packages, does nothing else, and forks the keepers of workers that need them.

A worker of a template has imported them already, which takes PyTorch two seconds and TensorFlow four. The template
holds one socket, to the process that started it, and has one thread. Each request brings the descriptors of one worker;
its fork becomes the worker's keeper, with the worker in namespaces of its own.
Run as `python -P -m bench.measure.template SOCKET MODULES`, where MODULES is a JSON list.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

from bench.measure import keeper, memory, namespaces, worker

MOST_BYTES = 1 << 20
DESCRIPTORS = ("stdin", "stdout", "stderr", "lifeline", "report", "status", "scratch", "where")
"""Descriptors that come with a request, in this order."""
_NO_NAMESPACE = 125
"""Exit status of a keeper that could not set its worker apart."""


def main() -> None:
    """Import the modules, and fork keepers until the socket ends."""
    link = socket.socket(fileno=int(sys.argv[1]))
    link.set_inheritable(False)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if not namespaces.can_be_apart():
        return
    flags = fcntl.fcntl(link, fcntl.F_GETFL)
    fcntl.fcntl(link, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(link, fcntl.F_SETFL, flags | os.O_ASYNC)  # an import that hangs ends with the parent, by SIGIO
    for name in json.loads(sys.argv[2]):
        importlib.import_module(name)
    fcntl.fcntl(link, fcntl.F_SETFL, flags)
    gc.collect()
    gc.freeze()  # what is imported is never garbage, and stays shared with the forks
    threads = len([*Path("/proc/self/task").iterdir()])
    shared = _descriptors() - {0, 1, 2, link.fileno()}
    memory.forked_from(memory.file_bytes())
    link.send(json.dumps({"is_safe": threads == 1 and not shared}).encode())
    ended: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(link, MOST_BYTES, len(DESCRIPTORS))
        if not data:
            return
        request = json.loads(data)
        if "ended" in request:
            ended.add(request["ended"])
            ended -= {pid for pid in ended if os.waitpid(pid, os.WNOHANG)[0]}
            continue
        pid = os.fork()
        if pid == 0:
            link.close()
            _keep(request, dict(zip(DESCRIPTORS, descriptors, strict=True)))
        for descriptor in descriptors:
            os.close(descriptor)
        link.send(json.dumps({"pid": pid}).encode())


def _descriptors() -> set[int]:
    """The descriptors that this process has open, without that which lists them."""
    listed = [path.name for path in Path("/proc/self/fd").iterdir()]
    return {
        int(name) for name in listed if Path("/proc/self/fd", name).exists() or Path("/proc/self/fd", name).is_symlink()
    }


def _keep(request: dict[str, Any], descriptors: dict[str, int]) -> NoReturn:
    """Be the keeper of one worker, write how it ended to the descriptor `status`, and end.

    The worker's own end is written first, so that what stands there first counts.
    """
    code = _NO_NAMESPACE
    try:
        if not os.read(descriptors["lifeline"], 1):  # the parent has started another keeper instead, or is gone
            os._exit(0)
        os.fchdir(descriptors["where"])
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            descriptor = descriptors.pop(name)
            os.dup2(descriptor, number)
            os.close(descriptor)
        if namespaces.leave_processes():
            known = {name: descriptors[name] for name in ("lifeline", "report")}
            code = keeper.keep(**known, folder=request["folder"], start=lambda: _start(request, descriptors))
        os.write(descriptors["status"], b"%d\n" % code)
    finally:
        os._exit(0)


def _start(request: dict[str, Any], descriptors: dict[str, int]) -> int:
    """Fork the first process of the worker's namespaces, which starts the worker, and give its identifier.

    The first process of a namespace gets no signals that it has no handler for, so it cannot be the worker: it waits
    for the worker, and writes how that ended to the descriptor `status`. All processes of the namespaces end with it.
    """
    number = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        keeper.begin_worker()
        namespaces.die_with_parent()
        own_descriptors = {0, 1, 2, descriptors["status"], descriptors["scratch"]}
        for descriptor in _descriptors() - own_descriptors:  # the keeper's
            with contextlib.suppress(OSError):
                os.close(descriptor)
        if not namespaces.see_own_processes():
            os._exit(_NO_NAMESPACE)
        namespaces.number_next(number)
        first = os.fork()
        if first == 0:
            os.close(descriptors["status"])
            _work(request)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1):  # they are the worker's: the parent sees when the worker closes them
            os.dup2(nothing, number)
        code = None
        while code is None:
            ended, status = os.waitpid(-1, 0)
            code = os.waitstatus_to_exitcode(status) if ended == first else None
        os.write(descriptors["status"], b"%d\n" % code)
        os._exit(0)
    finally:
        os._exit(127)


def _work(request: dict[str, Any]) -> NoReturn:
    """Be the worker."""
    code = 1
    try:
        keeper.begin_worker()
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python has it when it starts
        os.environ.clear()
        os.environ.update(request["environment"])
        os.umask(request["umask"])
        sys.argv = ["bench.measure.worker"]
        _forget()
        worker.serve(parent_pid=1, memory_bytes=request["memory_bytes"], is_timed=False)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _forget() -> None:
    """Have `tempfile` look for its folder again, and NumPy draw a seed: both are each worker's own."""
    if (module := sys.modules.get("tempfile")) is not None:
        module.tempdir = None  # type: ignore[attr-defined]
    if (module := sys.modules.get("numpy.random")) is not None:
        module.seed()


if __name__ == "__main__":
    main()
