"""Templates of this process: each has imported some packages, and forks workers that need not import them again.

A step that is not timed runs in a fork where that is as safe as a process of its own: the template has one thread, and
the system gives the fork namespaces of its own. Everything else is started as before. Launches that are timed are
always started processes, because a fork has its template's layout of memory: see `benchmarks/layouts.py`.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import IO, Any, ClassVar

from bench.measure.template import DESCRIPTORS, MOST_BYTES

_STARTING_S = 120.0
"""Time for a template's imports; a package that takes longer is imported by each worker."""
_FORKING_S = 10.0
MOST = 8
"""Templates that stay; the one that was used the longest ago ends first."""
_OF_ONE_WORKER = frozenset({"TMPDIR", "PWD", "OLDPWD", "COLUMNS", "LINES", "PYTEST_CURRENT_TEST", "_"})
"""Variables that no package reads when it is imported, beside those of this package."""
_OWN_PREFIX = "BENCH_"


class Forked:
    """A keeper that a template forked, in the form of a `subprocess.Popen`.

    Attributes:
        stdin, stdout: the parent's ends of the worker's pipes.
        pid: the keeper's process identifier, which stays its own until `close`.
    """

    def __init__(self, template: Template, pid: int, stdin: IO[bytes], stdout: IO[bytes], status: int) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self._template, self._status = template, status
        try:
            self._handle = os.pidfd_open(pid)
        except OSError:
            os.close(status)
            raise
        self._code: int | None = None

    def poll(self) -> int | None:
        """How the worker ended, as `subprocess` has it; None while its keeper runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the keeper's end.

        Raises:
            subprocess.TimeoutExpired: it has not ended in time.
        """
        if self._code is None:
            if not select.select([self._handle], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a fork", timeout or 0)
            endings = os.read(self._status, 64) if select.select([self._status], [], [], 0)[0] else b""
            try:
                self._code = int(endings.split(b"\n")[0])
            except ValueError:  # nothing stands there, or what the worker's code wrote
                self._code = -signal.SIGKILL
        return self._code

    def kill(self) -> None:
        """Kill the keeper, with which its worker dies."""
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        """Have the keeper end its worker."""
        self._send(signal.SIGTERM)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdin, self.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self.wait()
        if self._status >= 0:
            os.close(self._status)
            os.close(self._handle)
            self._status = self._handle = -1
            self._template.forget(self.pid)


class Template:
    """A process that has imported modules; its methods may be called from any thread.

    Args:
        command: the program and arguments that run a module of this package.
        modules: names of the modules that it imports.
        environment: its environment variables.

    Raises:
        OSError: it could not be started, or has ended.
    """

    starting: ClassVar[set[subprocess.Popen[bytes]]] = set()
    """The processes of templates that still import."""

    def __init__(self, command: Sequence[str], modules: Sequence[str], environment: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), json.dumps(list(modules))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._link.settimeout(_STARTING_S)
        self.is_safe = False
        Template.starting.add(self._process)
        try:
            self.is_safe = bool(self._read()["is_safe"])
            self._link.settimeout(_FORKING_S)
        except OSError:
            pass
        finally:
            Template.starting.discard(self._process)
            if not self.is_safe:
                self.close()

    def fork(self, request: Mapping[str, Any], descriptors: Mapping[str, int]) -> tuple[int, int]:
        """Fork the keeper of a worker, which starts the worker when a byte comes through its lifeline.

        Args:
            request: `environment`, `umask`, `folder` and `memory_bytes` of the worker.
            descriptors: by the names of `DESCRIPTORS`, but `status`.

        Returns:
            The keeper's process identifier, and a descriptor that tells how the worker ended.

        Raises:
            OSError: the template has ended.
        """
        reading, status = os.pipe()
        try:
            numbers = [{**descriptors, "status": status}[name] for name in DESCRIPTORS]
            with self._lock:
                socket.send_fds(self._link, [json.dumps(request).encode()], numbers)
                return int(self._read()["pid"]), reading
        except BaseException:  # a reply that comes later would be taken for that of another request
            os.close(reading)
            self.close()
            raise
        finally:
            os.close(status)

    def forget(self, pid: int) -> None:
        """Let go of the identifier of a keeper that has ended."""
        with self._lock, contextlib.suppress(OSError):
            self._link.send(json.dumps({"ended": pid}).encode())

    def _read(self) -> dict[str, Any]:
        data = self._link.recv(MOST_BYTES)
        if not data:
            raise OSError("the template has ended")
        reply: dict[str, Any] = json.loads(data)
        return reply

    def close(self) -> None:
        """End the template; its forks go on."""
        self._link.close()
        self._process.kill()
        self._process.wait()


def end_starting() -> None:
    """Kill the templates that still import, from any thread: what waits for one goes on without it."""
    for process in list(Template.starting):
        process.kill()


class Templates:
    """The templates of this process, by what they have imported and the environment in which they did."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[Any, ...], Future[Template | None]] = {}
        self._owner = os.getpid()

    def of(self, command: Sequence[str], modules: Sequence[str], environment: Mapping[str, str]) -> Template | None:
        """The template of some modules; None where they cannot be forked, or the system allows no namespaces."""
        if sys.platform != "linux" or self._owner != os.getpid():
            return None
        lasting = {name: value for name, value in environment.items() if not _is_of_one_worker(name)}
        key = (tuple(command), tuple(modules), tuple(sorted(lasting.items())))
        with self._lock:
            is_new = key not in self._known
            future = self._known.pop(key, None) or Future()
            self._known[key] = future  # as the one that was used last
        if is_new:  # without the lock: other templates are wanted meanwhile
            template = None
            try:
                template = _started(command, modules, lasting)
            finally:
                future.set_result(template)
            with self._lock:
                for other in [*self._living()][:-MOST]:
                    self._drop(other)
        return future.result()

    def drop(self, template: Template) -> None:
        """End a template that does not answer; what it had imported is imported by each worker from now on."""
        with self._lock:
            for key in [key for key in self._living() if self._known[key].result() is template]:
                self._known[key] = Future()
                self._known[key].set_result(None)
        template.close()

    def _living(self) -> Iterator[tuple[Any, ...]]:
        return (key for key, known in self._known.items() if known.done() and known.result() is not None)

    def _drop(self, key: tuple[Any, ...]) -> None:
        template = self._known.pop(key).result()
        assert template is not None
        template.close()

    def close(self) -> None:
        """End all templates."""
        with self._lock:
            for key in [*self._living()]:
                self._drop(key)


def _started(command: Sequence[str], modules: Sequence[str], environment: Mapping[str, str]) -> Template | None:
    """A template that can be forked safely; None where there is none."""
    try:
        template = Template(command, modules, environment)
    except OSError:
        return None
    return template if template.is_safe else None


def _is_of_one_worker(name: str) -> bool:
    return name in _OF_ONE_WORKER or name.startswith(_OWN_PREFIX)


OF_THIS_PROCESS = Templates()
atexit.register(OF_THIS_PROCESS.close)
