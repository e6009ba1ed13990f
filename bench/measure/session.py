"""A worker: the state of a child process between its requests, and the requests about its open session."""

from __future__ import annotations

import dataclasses
import importlib
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from bench.api import Arrays, Session
from bench.api.generation import Generator
from bench.measure import clock, tokens
from bench.measure.memory import MemoryLog


@dataclasses.dataclass(frozen=True, kw_only=True)
class Opened:
    """An open session with the requests that are measured.

    Attributes:
        requests: host arrays by input name, for each of some inferences: at least one.
        memory: memory of the phases so far.
        facts: fields of `Launch` that were measured while the session was opened.
    """

    session: Session
    requests: Sequence[Arrays]
    memory: MemoryLog
    facts: Mapping[str, Any]


class Worker:
    """Performs requests one at a time; its methods are the requests about the process and its open session.

    Attributes:
        state: what requests of features keep from one to the next, by the names of their modules.
    """

    def __init__(self, confined: Mapping[str, bool]) -> None:
        self._confined = confined
        self._opened: Opened | None = None
        self.state: dict[str, Any] = {}

    def do(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Perform one request.

        Args:
            operation: `module:function`, or `module:Class.function` for a function that takes this worker first, such
                as a method of this class. A function that returns an `Opened` leaves its session open for `burst` and
                `finish`.

        Returns:
            What the operation returned, or the facts of the session it opened.
        """
        module, _, name = operation.partition(":")
        function = operator.attrgetter(name)(importlib.import_module(module))
        result = function(self, **arguments) if "." in name else function(**arguments)
        if isinstance(result, Opened):
            self._opened = result
            result = {**result.facts, "confined": self._confined}
        return dict(result)

    @property
    def opened(self) -> Opened:
        """What was opened last."""
        assert self._opened is not None
        return self._opened

    def protection(self) -> dict[str, Any]:
        """Which protections this system allows, and how the memory of this process is measured."""
        return {**self._confined, "memory_method": MemoryLog().method}

    def burst(self, *, request: int = 0, **plan: int) -> dict[str, Any]:
        """Run the open session for a short while and become quiet again.

        Args:
            request: number of the request that all inferences of the burst answer; after the last one comes the first.
            plan: the fields of `BurstPlan`.
        """
        assert self._opened is not None
        requests, session = self._opened.requests, self._opened.session
        feeds = requests[request % len(requests)]
        if session.pid is not None:
            cold, steady = session.burst(feeds, plan)
        elif isinstance(session, Generator):
            cold, steady = tokens.burst(session, feeds, clock.BurstPlan(**plan))
        else:
            cold, steady = clock.burst(session.run, feeds, clock.BurstPlan(**plan))
        return {"cold_ns": cold, "steady_ns": steady, "quiet": clock.settle(session.pid)}

    def finish(self) -> dict[str, Any]:
        """Record the memory of the steady state and close the session."""
        assert self._opened is not None
        opened, self._opened = self._opened, None
        with opened.session, opened.memory.phase("steady"):
            opened.session.run(opened.requests[0])
        return {"memory": opened.memory.as_json()}
