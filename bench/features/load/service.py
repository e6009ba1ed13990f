"""The parent's side of a service: it starts the workers and the client, and has the client send requests."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from bench.api.errors import BenchError, ChildError
from bench.features.load import client, energy, loadgen, served, wire
from bench.features.load.lines import LoadLaunch, LoadRun
from bench.features.load.served import Run
from bench.features.load.serving import Batching, Serving
from bench.measure.limits import Limits
from bench.measure.parallel import on_all_cores
from bench.measure.process import Child
from bench.measure.scratch import Scratch
from bench.measure.subject import Subject

_GRACE_S = 30.0
"""Time that a client may take beyond the time that its requests take."""
_STOPPING_S = 5.0
"""Time in which a worker stops serving when it is told to."""
_SILENT_TIMES = 5
"""Times the longest inference of an idle service without an answer, after which a service is silent."""
_FIRST_S = 60.0
"""Time in which the first inference of a worker that learned no answers may end."""


@dataclasses.dataclass(frozen=True, kw_only=True, order=True)
class Setup:
    """How a service is set up.

    Attributes:
        instances: number of workers.
        sessions: sessions of each worker, which answer at the same time.
        batching: how each session puts requests together.
    """

    instances: int = 1
    sessions: int = 1
    batching: Batching = Batching()

    @classmethod
    def of(cls, line: LoadLaunch | LoadRun) -> Setup:
        """The setup that a stored line tells of."""
        batching = Batching(most=line.max_batch, delay_ns=line.max_delay_ns)
        return cls(instances=line.instances, sessions=line.sessions, batching=batching)

    def as_fields(self) -> dict[str, int]:
        """The fields of `LoadLaunch` and `LoadRun` that tell of it."""
        own = {"instances": self.instances, "sessions": self.sessions}
        return {**own, "max_batch": self.batching.most, "max_delay_ns": self.batching.delay_ns}

    @property
    def at_once(self) -> int:
        """How many inferences run at the same time."""
        return self.instances * self.sessions

    def __str__(self) -> str:
        """How a cell is served, such as `2 workers, batch <= 4 within 5 ms`."""
        workers = "1 worker" if self.instances == 1 else f"{self.instances} workers"
        workers += f" of {self.sessions} sessions" if self.sessions > 1 else ""
        if self.batching.most == 1:
            return workers
        delay = f" within {self.batching.delay_ns / 1e6:g} ms" if self.batching.delay_ns else ""
        return f"{workers}, batch <= {self.batching.most}{delay}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bounds:
    """When a run under load is given up.

    Attributes:
        most_waiting: requests that may wait at a time: of more, the service is overloaded.
        silent_s: seconds without an answer while requests wait; `_SILENT_TIMES` inferences where these take longer.
    """

    most_waiting: int = 4096
    silent_s: float = 2.0

    def after(self, service: Service) -> Bounds:
        """The bounds for a service, by how long its inferences take."""
        return dataclasses.replace(self, silent_s=max(self.silent_s, _SILENT_TIMES * service.longest_s))

    def as_arguments(self) -> dict[str, int]:
        """The arguments of the client's operations."""
        return {"most_waiting": self.most_waiting, "silent_ns": int(self.silent_s * 1e9)}


class Service(contextlib.AbstractContextManager["Service"]):
    """Workers that serve a cell from one queue; use it as a context manager.

    Args:
        subject: the cell.
        setup: how many workers there are, and how they put requests together.
        limits: time and memory of each worker.
        learns: whether the workers learn the right answers before they serve; without, no answer is checked.

    Attributes:
        subject: the cell.
        setup: how it is set up: with one request at a time where its session answers several otherwise.
        num_rows: number of samples that requests may ask about.
        longest_s: seconds of the longest inference while the workers learned the answers, the largest batch included.
        started_ns: when the first worker was started, by the clock of the requests.

    Raises:
        ChildError: on entering, a worker does not open the cell.
    """

    def __init__(self, subject: Subject, setup: Setup, limits: Limits, *, learns: bool = True) -> None:
        self.subject, self.setup, self._limits, self._learns = subject, setup, limits, learns
        self._stack = contextlib.ExitStack()
        self._children: list[Child] = []
        self.num_rows = self.started_ns = 0
        self.longest_s = 0.0 if learns else _FIRST_S / _SILENT_TIMES

    def __enter__(self) -> Service:
        with self._stack:
            folder = self._stack.enter_context(Scratch())
            self.requests, self.answers = wire.make(folder)
            # Both pipes stay open here: what is in them outlives whoever wrote it.
            self._queue = self._stack.enter_context(wire.opened(self.requests, blocking=False))
            self._replies = self._stack.enter_context(wire.opened(self.answers, blocking=False))
            subject, self.started_ns = self.subject, time.perf_counter_ns()
            for _ in range(self.setup.instances):
                child = Child(
                    environment=subject.environment,
                    memory_bytes=self._limits.memory_bytes,
                    interpreter=subject.interpreter,
                )
                self._children.append(self._stack.enter_context(child))
            failed: list[BenchError] = []
            on_all_cores(self._open, list(enumerate(self._children)), lambda _, outcome: _note(outcome, failed))
            if failed:
                raise failed[0]
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self, numbered: tuple[int, Child]) -> None:
        (number, child), batching, limit_s = numbered, self.setup.batching, self._limits.open_s
        imports, opening = self.subject.imports, self.subject.opening
        child.request(imports.operation, timeout_s=limit_s, **imports.arguments)
        for place in range(self.setup.sessions):
            child.request(opening.operation, timeout_s=limit_s, **opening.arguments)
            answer = child.request(
                Serving.prepare,
                timeout_s=limit_s,
                session=number * self.setup.sessions + place,
                most=batching.most,
                delay_ns=batching.delay_ns,
            )
        self.num_rows = int(answer["num_rows"])
        if self._learns:
            learnt = child.request(Serving.learn_answers, timeout_s=limit_s)
            self.longest_s = max(self.longest_s, int(learnt["longest_ns"]) / 1e9)
            if int(learnt["most"]) < batching.most:
                self.setup = dataclasses.replace(self.setup, batching=Batching())

    @property
    def pids(self) -> list[int]:
        """The process of each worker."""
        return [child.pid for child in self._children]

    @contextlib.contextmanager
    def serving(self, most_s: float, *, polls: bool) -> Iterator[list[Future[dict[str, Any]]]]:
        """Have the workers serve for as long as the statements in the `with` block take.

        Gives, for each worker, what it tells in the end: how many answers it `checked`, and how many were `wrong`.

        Args:
            most_s: seconds that this takes at most.
            polls: whether the workers poll for requests, each on a core of its own.

        Raises:
            ChildError: a worker died, hangs, or failed.
        """
        arguments = {"requests": str(self.requests), "answers": str(self.answers), "polls": polls}
        wire.drop_waiting(self._replies)  # those to requests of a run that was given up
        with ThreadPoolExecutor(len(self._children)) as pool:
            futures = [
                pool.submit(child.request, Serving.serve, timeout_s=most_s + _STOPPING_S, **arguments)
                for child in self._children
            ]
            try:
                yield futures
            except BaseException:
                for child in self._children:
                    child.tell_to_end()
                raise
            finally:
                wire.drop_waiting(self._queue)
                wire.stop(self._queue, self.setup.at_once)
            for each in futures:
                each.result(timeout=most_s + 2 * _STOPPING_S)


def _note(outcome: BenchError | None, failed: list[BenchError]) -> None:
    """Keep an error for later: raised at once, it would end all processes of the command."""
    if outcome is not None:
        failed.append(outcome)


class Driver(contextlib.AbstractContextManager["Driver"]):
    """The client's process; use it as a context manager.

    Args:
        limits: memory of the process.
        bounds: when a run is given up.
    """

    def __init__(self, limits: Limits, bounds: Bounds) -> None:
        self._limits, self._bounds = limits, bounds
        self._stack = contextlib.ExitStack()
        self._meter = energy.Meter()

    def __enter__(self) -> Driver:
        with self._stack:
            self._folder = self._stack.enter_context(Scratch())
            self._child = self._stack.enter_context(Child(memory_bytes=self._limits.memory_bytes))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def pid(self) -> int:
        """The client's process."""
        return self._child.pid

    def replay(self, service: Service, due_ns: np.ndarray, rows: np.ndarray) -> Run:
        """Send requests at given times; see `client.replay`.

        Args:
            service: what serves them.
            due_ns: int64 nanoseconds after the beginning, increasing, N.
            rows: the samples that they ask about, N.

        Raises:
            ChildError: the client or a worker failed.
        """
        plan = self._folder / "plan.npz"
        np.savez(plan, due_ns=due_ns, rows=rows)
        last_s = float(due_ns[-1]) / 1e9 if len(due_ns) else 0.0
        return self._run(service, client.replay, last_s, {"plan": str(plan)})

    def drive(
        self,
        service: Service,
        scenario: str,
        settings: Mapping[str, float],
        folder: Path,
        most_s: float,
        *,
        num_tokens: int = 0,
    ) -> Run:
        """Run a scenario of the load generator; see `loadgen.drive`.

        Args:
            service: what serves the requests.
            scenario: one of `loadgen.SCENARIOS`.
            settings: fields of the load generator's settings.
            folder: where its logs are written.
            most_s: seconds that the scenario takes at most.
            num_tokens: as of `loadgen.drive`.

        Raises:
            ChildError: the client or a worker failed.
        """
        arguments = {"scenario": scenario, "num_samples": service.num_rows, "settings": dict(settings)}
        arguments["num_tokens"] = num_tokens
        return self._run(service, loadgen.drive, most_s, {**arguments, "folder": str(folder)})

    def _run(self, service: Service, operation: Callable[..., Any], most_s: float, arguments: Mapping[str, Any]) -> Run:
        target, bounds = self._folder / "served.npz", self._bounds.after(service)
        most_s += _GRACE_S + bounds.silent_s
        at_once = service.setup.at_once
        is_apart = _set_apart(self.pid, service)
        with service.serving(most_s, polls=is_apart) as futures:
            with self._meter.counting() as used:
                answer = self._child.request(
                    operation,
                    timeout_s=most_s,
                    requests=str(service.requests),
                    answers=str(service.answers),
                    target=str(target),
                    spins=is_apart,
                    **bounds.as_arguments(),
                    **arguments,
                )
            if answer["gave_up"] == "silent":
                raise _silence(futures, bounds.silent_s)
        checked, wrong = (sum(int(each.result()[name]) for each in futures) for name in ("checked", "wrong"))
        return Run(
            served=served.read(target, at_once),
            gave_up=answer["gave_up"],
            checked=checked,
            wrong=wrong,
            joules=used.joules,
            joules_of=self._meter.names,
            delay_ns=service.setup.batching.delay_ns,
        )


def _set_apart(client: int, service: Service) -> bool:
    """Give the client a core of its own where one stays free beside the service; returns whether one does.

    The client then keeps this core busy, as if it were another machine, and the workers poll for a while: to be woken
    for each request takes a virtual machine 100 microseconds and more. Without a core of its own the client would be in
    the workers' way: the system likes to wake a worker on the core of whoever wrote to it.
    """
    if not hasattr(os, "sched_getaffinity"):
        return False
    cores = sorted(os.sched_getaffinity(0))
    busy = service.setup.at_once * service.subject.cell.threads
    is_free = busy < min(len(cores), psutil.cpu_count(logical=False) or len(cores))
    _keep_on(client, cores[-1:] if is_free else cores)
    for pid in service.pids if is_free else ():  # elsewhere a runtime's own choice of cores stays
        _keep_on(pid, cores[:-1])
    return is_free


def _keep_on(pid: int, cores: Collection[int]) -> None:
    """Have all threads of a process run on some cores."""
    with contextlib.suppress(psutil.Error, OSError):  # a process that is gone is told of elsewhere
        for thread in psutil.Process(pid).threads():
            os.sched_setaffinity(thread.id, cores)


def _silence(futures: Sequence[Future[dict[str, Any]]], silent_s: float) -> ChildError:
    """Why no answer came: the death of a worker, or that all live and none answers."""
    for each in futures:
        if each.done() and isinstance(error := each.exception(), ChildError):
            return error
    return ChildError("timeout", f"no answer under load within {silent_s:g} s")
