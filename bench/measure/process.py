"""The parent's side of a child process: sends requests, waits for answers, and reports why a child died."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from bench.api.errors import ChildError
from bench.measure import keeper, templates
from bench.measure.interpreter import OWN, Interpreter
from bench.measure.scratch import Scratch
from bench.measure.templates import Forked

_LOG_TAIL_BYTES = 4000
_QUIET_ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # a thread that its import would start
    "ORT_DISABLE_TELEMETRY": "1",
    "PYTHONUNBUFFERED": "1",
}
MOST_REPLY_BYTES = 1 << 29
ENDING_S = 5.0
"""Time in which a keeper ends its worker; a keeper that takes longer is killed."""
DYING_S = 10.0
"""Time in which a child that closed its output is to end."""
_FORGED = "its answer cannot be read: code that it ran wrote to files that are not its own"
_OUT_OF_MEMORY = ("MemoryError", "bad_alloc", "Cannot allocate memory", "out of memory")


def thread_environment(threads: int) -> dict[str, str]:
    """Variables that numeric libraries read at import to size their thread pools."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


class Child(contextlib.AbstractContextManager["Child"]):
    """A child process that answers one request at a time; use it as a context manager.

    The parent waits for an answer without using the CPU: a parent that polls takes time from the child that it times.

    Args:
        environment: variables of the child, besides those of this process.
        memory_bytes: limit on the child's private writable memory; None for no limit.
        interpreter: runs the child; that of this process by default.
        modules: what the child imports of packages, for a child that is not timed: then it may be a fork of a process
            that has imported them; None for a process of its own.
    """

    living: ClassVar[set[Child]] = set()
    """The children of this process that have not been closed yet."""
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        memory_bytes: int | None = None,
        interpreter: Interpreter = OWN,
        modules: Sequence[str] | None = None,
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the child)
        fcntl.fcntl(self._log, fcntl.F_SETFL, fcntl.fcntl(self._log, fcntl.F_GETFL) | os.O_APPEND)  # it may be cut
        self._scratch = Scratch()
        self._memory_bytes = memory_bytes
        self._is_timed = modules is None
        self._buffer = bytearray()
        lifeline, self._lifeline = os.pipe()
        self._report, report = os.pipe()
        variables = {
            **interpreter.inherited(),
            **_QUIET_ENVIRONMENT,
            **(environment or {}),
            "TMPDIR": str(self._scratch.path),
        }
        try:
            setting = (interpreter, variables, lifeline, report)
            forked = None if modules is None else self._forked(modules, *setting)
            self._process: subprocess.Popen[bytes] | Forked = forked or self._started(*setting)
        finally:
            os.close(lifeline)
            os.close(report)
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._died = _death_descriptor(self._process.pid)
        with Child._lock:
            Child.living.add(self)

    def _started(
        self, interpreter: Interpreter, variables: Mapping[str, str], lifeline: int, report: int
    ) -> subprocess.Popen[bytes]:
        """Start the keeper of the child as a process of its own."""
        return subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", keeper.__file__, str(lifeline), str(report), str(self._scratch.path)),
                *interpreter.command("bench.measure.worker"),
                json.dumps({"memory_bytes": self._memory_bytes, "is_timed": self._is_timed}),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=variables,
            pass_fds=(lifeline, report, self._scratch.lock),
            start_new_session=True,  # spared by Ctrl-C, which is the parent's to handle
        )

    def _forked(
        self, modules: Sequence[str], interpreter: Interpreter, variables: Mapping[str, str], lifeline: int, report: int
    ) -> Forked | None:
        """Have a template fork the keeper of the child; None where there is no such template."""
        template = templates.OF_THIS_PROCESS.of(interpreter.command("bench.measure.template"), modules, variables)
        if template is None:
            return None
        try:
            where = os.open(".", os.O_PATH)  # a folder that was removed has no name
        except OSError:  # nor can a fork go there
            return None
        request = {
            "environment": variables,
            "umask": _umask(),
            "folder": str(self._scratch.path),
            "memory_bytes": self._memory_bytes,
        }
        (stdin, ours), (output, stdout) = os.pipe(), os.pipe()
        pipes = os.fdopen(ours, "wb", 0), os.fdopen(output, "rb", 0)
        passed = {
            "stdin": stdin,
            "stdout": stdout,
            "stderr": self._log.fileno(),
            "lifeline": lifeline,
            "report": report,
        }
        try:
            pid, status = template.fork(request, {**passed, "scratch": self._scratch.lock, "where": where})
            forked = Forked(template, pid, *pipes, status)
        except OSError:  # it was killed, or does not answer: if there is a keeper, that waits until the lifeline ends
            templates.OF_THIS_PROCESS.drop(template)
            for pipe in pipes:
                pipe.close()
            return None
        finally:
            for descriptor in (stdin, stdout, where):
                os.close(descriptor)
        os.write(self._lifeline, b".")
        return forked

    @functools.cached_property
    def pid(self) -> int:
        """The worker's process identifier, or its keeper's where the keeper could not start it."""
        line = os.read(self._report, 32) if select.select([self._report], [], [], ENDING_S)[0] else b""
        return int(line or self._process.pid)

    def request(self, operation: Callable[..., Any], *, timeout_s: float, **arguments: Any) -> dict[str, Any]:
        """Send the child a request and wait for its answer.

        Args:
            operation: a function of an importable module, or one of a class there that takes the
                `bench.measure.session.Worker` first; the child imports the module and calls it.
            arguments: keyword arguments of the operation, of types that JSON has.
            timeout_s: seconds after which a child that has not answered is killed.

        Raises:
            ChildError: the operation raised, or the child died, ran out of memory or out of time. In the last case the
                `detail` ends with the child's stack, where the child could write that.
        """
        number = secrets.token_hex(8)  # which output that is no answer does not repeat
        name = f"{operation.__module__}:{operation.__qualname__}"
        message = {"id": number, "operation": name, "arguments": arguments, "timeout_s": timeout_s}
        line = json.dumps(message) + "\n"
        deadline = time.monotonic() + timeout_s
        try:
            self._send(line.encode(), deadline)
            answer = self._read_line(deadline)
        except BrokenPipeError:
            raise self._death() from None
        except TimeoutError:
            self.kill()
            raise ChildError("timeout", f"no answer within {timeout_s:g} s", detail=self._log_tail()) from None
        try:
            reply = json.loads(answer)
            if reply["id"] != number:  # or a forked copy of the child answered, too
                raise ValueError("answer to another request")
            error = {name: str(reply[name]) for name in ("error", "kind", "traceback")} if "error" in reply else None
            result = dict(reply["result"]) if error is None else {}
        except (ValueError, KeyError, TypeError, RecursionError) as mistake:
            self.kill()
            raise ChildError("error", _FORGED, detail=self._log_tail()) from mistake
        if error is not None:
            raise self._raised(error)
        return result

    def _send(self, data: bytes, deadline: float) -> None:
        """Write to the child's input.

        Raises:
            BrokenPipeError: the child has ended, or has closed its input.
            TimeoutError: the child did not read all of it in time.
        """
        assert self._process.stdin is not None
        descriptor, left = self._process.stdin.fileno(), memoryview(data)
        watched = [] if self._died is None else [self._died]
        while left:
            died, ready, _ = select.select(watched, [descriptor], [], max(0.0, deadline - time.monotonic()))
            if died:
                raise BrokenPipeError
            if not ready:
                raise TimeoutError
            left = left[os.write(descriptor, left) :]

    def _read_line(self, deadline: float) -> bytes:
        """The next line of the child's output.

        Raises:
            BrokenPipeError: the output has ended, or has no end.
            TimeoutError: no whole line came in time.
        """
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        # A process that a dead child forked may hold the pipe open.
        watched = [descriptor] if self._died is None else [descriptor, self._died]
        end = self._buffer.find(b"\n")
        while end < 0:
            ready = select.select(watched, [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                raise TimeoutError
            data = os.read(descriptor, 1 << 16) if descriptor in ready else b""
            if not data or len(self._buffer) > MOST_REPLY_BYTES:
                raise BrokenPipeError
            begin = len(self._buffer)
            self._buffer += data
            end = self._buffer.find(b"\n", begin)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _raised(self, reply: Mapping[str, str]) -> ChildError:
        if reply["kind"] == "memory":
            return self._out_of_memory(reply["traceback"])
        return ChildError(reply["kind"], reply["error"], detail=reply["traceback"] + self._log_tail())

    def _death(self) -> ChildError:
        """The error that says why the child ended without an answer."""
        try:
            code = self._process.wait(timeout=DYING_S)
        except subprocess.TimeoutExpired:  # it closed its output but lives on
            self.kill()
            return ChildError("exit", "closed its output without an answer", detail=self._log_tail())
        tail = self._log_tail()
        if any(sign in tail for sign in _OUT_OF_MEMORY):
            return self._out_of_memory(tail)
        if code >= 0:
            return ChildError("exit", f"exited with status {code} without an answer", detail=tail)
        names = {number.value: number.name for number in signal.Signals}
        name = names.get(-code, f"signal {-code}")  # most real-time signals have no name
        hint = ", perhaps by the system for want of memory" if name == "SIGKILL" else ""
        return ChildError("signal", f"killed by {name}{hint}", detail=tail)

    def _out_of_memory(self, detail: str) -> ChildError:
        limit = f" (limit {self._memory_bytes / 2**30:.3g} GiB)" if self._memory_bytes else ""
        return ChildError("memory", f"out of memory{limit}", detail=detail)

    def _log_tail(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        start = max(0, size - _LOG_TAIL_BYTES)
        return os.pread(self._log.fileno(), _LOG_TAIL_BYTES, start).decode(errors="replace")

    def kill(self) -> None:
        """Kill the child and every process that it started, in whichever session."""
        self._drop_lifeline()
        try:
            if self._died is None or select.select([self._died], [], [], ENDING_S)[0]:
                self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            pass
        if self._process.poll() is None or self._scratch.path.exists():  # the keeper hangs, or something killed it
            self._process.kill()  # with which its worker dies
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()

    def tell_to_end(self) -> None:
        """Have the child killed, from any thread, without waiting for its end."""
        self._process.terminate()

    def _drop_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def close(self) -> None:
        """Kill the child, close its pipes, its log and its process descriptor, and remove its folder."""
        with Child._lock:
            Child.living.discard(self)
        with contextlib.suppress(BrokenPipeError), self._process:  # which closes its pipes on leaving
            self.kill()
        if self._died is not None:
            os.close(self._died)
            self._died = None
        if self._report >= 0:
            self.pid  # noqa: B018 (read while it can be)
            os.close(self._report)
            self._report = -1
        self._log.close()
        self._scratch.remove()

    def __exit__(self, *_: object) -> None:
        self.close()


def kill_all() -> None:
    """Kill every living child, from any thread; a thread that waits for a child gets the error of its death."""
    templates.end_starting()
    with Child._lock:
        for child in Child.living:
            child.tell_to_end()


@contextlib.contextmanager
def ended_at_once() -> Iterator[None]:
    """End all living children at the same time where the statements in the `with` block are stopped by a signal."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception):
            kill_all()
        raise


def _umask() -> int:
    """The mask of this process for new files, which other threads may need meanwhile."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Umask:")), 8)


def _death_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when the process has died; None where the system has no such descriptors."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return None


def ask_once(
    operation: Callable[..., Any],
    *,
    timeout_s: float,
    memory_bytes: int | None,
    threads: int = 1,
    interpreter: Interpreter = OWN,
    modules: Sequence[str] | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Start a child process, send it one request, end it, and return its answer.

    Args:
        operation: as `Child.request`.
        timeout_s: seconds after which the child is killed.
        memory_bytes: limit on the child's private writable memory; None for no limit.
        threads: size of the thread pools of numeric libraries in the child.
        interpreter, modules: as for `Child`.
        **arguments: keyword arguments of the operation.

    Raises:
        ChildError: as `Child.request`.
    """
    environment = thread_environment(threads)
    setting: dict[str, Any] = {"memory_bytes": memory_bytes, "interpreter": interpreter, "modules": modules}
    with Child(environment=environment, **setting) as child:
        return child.request(operation, timeout_s=timeout_s, **arguments)
