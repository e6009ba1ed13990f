"""The machines of one kind in a fleet as the place of a sweep: one prepares and verifies, and all of them measure."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bench.api.cell import Cell
from bench.api.errors import BenchError, ChildError
from bench.features.fleet import work
from bench.features.fleet.facts import Facts
from bench.features.fleet.portable import Portable, Sent
from bench.measure.block import Failure as BlockFailure
from bench.measure.block import Method, Result
from bench.measure.lease import LeaseError
from bench.measure.limits import Limits
from bench.measure.subject import Request, Subject
from bench.pipeline.flow import Prepared, Verified
from bench.pipeline.looks import Until
from bench.pipeline.place import Begun
from bench.records.lines import Failure, Quality

if TYPE_CHECKING:
    from ray import ObjectRef

_MEMORY_SHARE = 0.8
"""Of a machine's memory, what is taken as free: nobody else measures on it."""
_RETRIES = 4
"""How often work goes to another machine, or to the same one once it is back, after the death of a machine."""
_ASKED_S = 300.0
"""Time in which a machine tells which cells cannot work there: it imports what their plugins need."""
Told = TypeVar("Told")


class FleetError(BenchError):
    """The fleet cannot go on."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine of a fleet.

    Attributes:
        node: Ray's identifier of it.
        name: its name in the fleet.
        lease: the resource of Ray that a lease takes, of which the machine has one.
        facts: what it tells about itself.
    """

    node: str
    name: str
    lease: str
    facts: Facts


class FleetPlace:
    """Machines of one kind, with the same software.

    Args:
        machines: the machines, at least one.
        living: gives the identifiers of those nodes that Ray takes for alive.
        say: tells a person of a machine that can no longer take part.
        portable: the files that one kind of machine makes for all.
    """

    def __init__(
        self,
        machines: Sequence[Machine],
        living: Callable[[], frozenset[str]],
        say: Callable[[str], None],
        portable: Portable | None = None,
    ) -> None:
        self._machines = list(machines)
        self._unfit: dict[str, str] = {}
        self._say = say
        self._living = living
        self._portable = portable
        self._num_waves = 0
        self._values: dict[str, Verified] = {}
        self._files: dict[str, ObjectRef[Any]] = {}

    @property
    def kind(self) -> str:
        """The kind of the machines."""
        return self._machines[0].facts.kind

    def machines(self) -> list[Machine]:
        """The machines that are alive.

        Raises:
            FleetError: there is none.
        """
        living = self._living()
        machines = [machine for machine in self._machines if machine.node in living and machine.node not in self._unfit]
        if not machines:
            why = "".join(f"; {reason}" for reason in self._unfit.values())
            raise FleetError(
                f"no machine of kind {self.kind} is left{why}", fix="the same command goes on with those that join"
            )
        return machines

    def is_over(self, machine: Machine, error: BaseException) -> bool:
        """Whether an error is of a machine that died or can no longer take part, so that another one may do its work.

        A machine that only cannot take part is left out from now on.
        """
        from ray import exceptions

        cause = _cause(error)
        is_late = isinstance(error, exceptions.GetTimeoutError)
        if is_late or isinstance(cause, work.UnfitError) or isinstance(error, exceptions.OutOfDiskError):
            why = f"it does not answer in {_ASKED_S:.0f} s" if is_late else _line(cause)
            reason = f"{machine.name} takes no part any more: {why}"
            if self._unfit.setdefault(machine.node, reason) is reason:
                self._say(reason)
            return True
        return isinstance(error, _lost())

    def lease(self) -> AbstractContextManager[None]:
        """See `Place`; each step holds a lease of its own."""
        return contextlib.nullcontext()

    def skip_reasons(self, cells: Sequence[Cell]) -> list[str | None]:
        """See `Place`."""

        def ask(machine: Machine) -> list[str | None]:
            ref = remote(work.skip_reasons, machine, lease=False).remote(cells)
            reasons: list[str | None] = _get(ref, timeout_s=_ASKED_S)
            return reasons

        return self._on_any(ask)

    def prepare(self, cells: Sequence[Cell], limits: Limits, report: Callable[[Begun], None]) -> None:
        """See `Place`; after the death of the machine, another one prepares what is missing.

        The first of several kinds of machine sends the portable files to the others, which wait for them.
        """
        left = dict.fromkeys(cells)
        is_first = self._portable is not None and self._portable.is_first(self.kind)
        sent = [] if self._portable is None or is_first else self._portable.come(self._num_waves)
        self._num_waves += 1
        ready_cells: list[Cell] = []
        files: list[Sent] = []

        def step(machine: Machine) -> None:
            ready_cells.clear()
            for begun in _stream(work.prepared, machine, list(left), limits, sent):
                left.pop(begun.cell, None)
                if isinstance(begun.outcome, Prepared):
                    ready_cells.append(begun.cell)
                report(begun)
            if is_first:
                paths: list[Path] = _get(remote(work.portable, machine).remote(ready_cells, limits))
                send = remote(work.content, machine)
                files[:] = [(path.parent.name, path.name, send.remote(path)) for path in paths]

        self._on_any(step)
        if self._portable is not None and is_first:
            self._portable.send(files)

    def end(self) -> None:
        """Let no other kind of machine wait for this one any more."""
        if self._portable is not None and self._portable.is_first(self.kind):
            self._portable.end()

    def verify(
        self,
        cells: Sequence[Prepared],
        known: Mapping[str, Quality],
        limits: Limits,
        until: Until | None,
        report: Callable[[Sequence[Prepared], Verified | Failure], None],
    ) -> None:
        """See `Place`; the files of the cells are kept in Ray's object store where several machines will need them."""
        left = {value.key: value for value in cells}

        def step(machine: Machine) -> None:
            paths: dict[str, Any] = {}
            for values, outcome in _stream(work.verified, machine, list(left.values()), dict(known), limits, until):
                for value in values:
                    left.pop(value.key, None)
                if isinstance(outcome, Verified):
                    files = (outcome.inputs, *(value.artifact.path for value in values))
                    paths |= {path.parent.name: path for path in files}
                report(values, outcome)
            if len(self._machines) > 1:
                send = remote(work.content, machine)
                self._files |= {key: send.remote(path) for key, path in paths.items() if key not in self._files}

        self._on_any(step)

    def subject(self, value: Verified) -> Subject:
        """See `Place`; how a worker is started and asked is known where it runs."""
        self._values[value.key] = value
        nothing = Request(operation=work.tell, arguments={})
        return Subject(
            cell=value.cell,
            key=value.key,
            environment={},
            imports=nothing,
            opening=nothing,
            rss_bytes=value.quality.rss_bytes,
        )

    def blocks(self) -> FleetBlocks:
        """See `Place`."""
        return FleetBlocks(self, self._values, self._files)

    def _on_any(self, step: Callable[[Machine], Told]) -> Told:
        """Run a step on one machine, and on another where that machine dies.

        Raises:
            FleetError: it died on every machine that it was tried on, or none is left.
        """
        error: Exception | None = None
        for number in range(_RETRIES + 1):
            machines = self.machines()
            machine = machines[number % len(machines)]
            try:
                return step(machine)
            except Exception as died:
                if not self.is_over(machine, died):
                    raise
                error = died
        raise FleetError(f"a step was lost with its machine {_RETRIES + 1} times: {_line(error)}")


class FleetBlocks:
    """Runs blocks on the machines of a place, one at a time on each."""

    def __init__(self, place: FleetPlace, values: Mapping[str, Verified], files: Mapping[str, ObjectRef[Any]]) -> None:
        self._place = place
        self._values = values
        self._files = files
        self._busy: set[str] = set()
        self._guard = threading.Lock()

    def most_at_once(self) -> int:
        """See `Blocks`."""
        return len(self._place.machines())

    def free_bytes(self) -> int:
        """See `Blocks`."""
        return int(_MEMORY_SHARE * min(machine.facts.memory_bytes for machine in self._place.machines()))

    def begin(
        self, baseline: Subject, subjects: Sequence[Subject], method: Method, left_s: Callable[[], float]
    ) -> Future[Result]:
        """Send a block to a machine that has none, and to another one should that machine die."""
        by_key = {subject.key: subject for subject in (baseline, *subjects)}
        first, *others = (self._values[key] for key in by_key)
        keys = {path.parent.name for value in (first, *others) for path in (value.artifact.path, value.inputs)}
        files = {key: self._files[key] for key in keys if key in self._files}

        def task(machine: Machine) -> Any:
            return remote(work.block, machine).remote(first, others, method, left_s(), files, machine.name)

        return self.send(task, lambda done: _result(done, by_key))

    def send(self, task: Callable[[Machine], Any], read: Callable[[Any], Told]) -> Future[Told]:
        """Send a task to a machine that has none, and to another one should that machine die.

        Args:
            task: sends it to a machine, and returns Ray's reference to what it brings.
            read: makes the result of that.
        """
        future: Future[Told] = Future()

        def send(left: int) -> None:
            try:
                machine = self._free()
                task(machine).future().add_done_callback(lambda done: settle(machine, done, left))
            except BaseException as error:  # raised where it is waited for: Ray calls this and heeds no error
                future.set_exception(_cause(error))

        def settle(machine: Machine, done: Future[Any], left: int) -> None:
            with self._guard:
                self._busy.discard(machine.node)
            try:
                future.set_result(read(done.result()))
            except BaseException as error:
                cause = _cause(error)
                if left and (self._place.is_over(machine, error) or isinstance(cause, LeaseError)):
                    send(left - 1)
                else:
                    future.set_exception(cause)

        send(_RETRIES)
        return future

    def _free(self) -> Machine:
        """A machine to send a block to.

        Raises:
            FleetError: none is left.
        """
        machines = self._place.machines()
        with self._guard:
            free = [candidate for candidate in machines if candidate.node not in self._busy]
            machine = random.choice(free or machines)
            self._busy.add(machine.node)
        return machine


def _result(came: work.Done, subjects: Mapping[str, Subject]) -> Result:
    return Result(
        launches=tuple((subjects[key], launch) for key, launch in came.launches),
        superseded=tuple((subjects[key], launch) for key, launch in came.superseded),
        failures=tuple(
            BlockFailure(subject=subjects[key], stage=stage, error=ChildError(kind, reason, detail=detail))
            for key, stage, kind, reason, detail in came.failures
        ),
    )


def _task(function: Callable[..., Any]) -> Any:
    """A function as Ray's task, which takes no processor of Ray's: the lease is what it takes."""
    import ray

    return ray.remote(num_cpus=0, max_retries=0)(function)


def remote(function: Callable[..., Any], machine: Machine, *, lease: bool = True, **options: Any) -> Any:
    """A function as Ray's task on one machine."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    pinned = NodeAffinitySchedulingStrategy(node_id=machine.node, soft=False)
    resources = {machine.lease: 1} if lease else {}
    return _task(function).options(scheduling_strategy=pinned, resources=resources, **options)


def _stream(function: Callable[..., Iterator[Any]], machine: Machine, *arguments: Any) -> Iterator[Any]:
    """What a generator yields on a machine, each item as soon as it is there."""
    for item in remote(function, machine, num_returns="streaming").remote(*arguments):
        yield _get(item)


def _get(ref: Any, timeout_s: float | None = None) -> Any:
    """The value of a reference.

    Args:
        ref: the reference.
        timeout_s: time after which its machine counts as lost; None for no limit.

    Raises:
        BenchError: as it was raised there.
    """
    import ray

    try:
        return ray.get(ref, timeout=timeout_s)
    except ray.exceptions.RayTaskError as error:
        raise _cause(error) from None


def _cause(error: BaseException) -> BaseException:
    """The error that a task raised, without Ray's wrapping; a machine that was lost as a `FleetError`."""
    import ray

    cause = getattr(error, "cause", None)
    if isinstance(error, ray.exceptions.RayTaskError) and isinstance(cause, BenchError):
        return cause
    if isinstance(error, ray.exceptions.RayError) and not isinstance(error, ray.exceptions.RayTaskError):
        return FleetError(_line(error))
    return error


def _lost() -> tuple[type[Exception], ...]:
    """The errors of a task whose machine or process died."""
    from ray import exceptions

    return (
        exceptions.NodeDiedError,
        exceptions.LocalRayletDiedError,
        exceptions.WorkerCrashedError,
        exceptions.ObjectLostError,
        exceptions.TaskUnschedulableError,
        exceptions.RaySystemError,
        exceptions.GetTimeoutError,
    )


def _line(error: BaseException | None) -> str:
    with contextlib.suppress(IndexError):
        return str(error).strip().splitlines()[0]
    return "no reason is known"
