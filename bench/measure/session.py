"""A worker: the state of a child process between its requests, and the requests about its open session."""

from __future__ import annotations

import dataclasses
import importlib
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Arrays, Session
from bench.api.generation import Generator
from bench.measure import clock, tokens
from bench.measure.memory import MemoryLog

if TYPE_CHECKING:
    from bench.measure.load.serving import Server


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
    """Performs requests one at a time; its methods are the requests about the process and its open session."""

    def __init__(self, confined: Mapping[str, bool]) -> None:
        self._confined = confined
        self._opened: Opened | None = None
        self._servers: list[Server] = []

    def do(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Perform one request.

        Args:
            operation: `module:function`, or `module:Worker.method` for a method of this class. A function that
                returns an `Opened` leaves its session open for `burst` and `finish`.

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
        if isinstance(session, Generator):
            cold, steady = tokens.burst(session, feeds, clock.BurstPlan(**plan))
        else:
            cold, steady = clock.burst(session.run, feeds, clock.BurstPlan(**plan))
        return {"cold_ns": cold, "steady_ns": steady, "quiet": clock.settle()}

    def prepare_serving(self, *, worker: int, most: int, delay_ns: int) -> dict[str, Any]:
        """Get ready to serve requests with the session that was opened last, beside those that are ready.

        Returns:
            The number of samples that requests may ask about, as `num_rows`.

        Args:
            worker: number of the session among those of its service.
            most: see `Batching`.
            delay_ns: see `Batching`.
        """
        from bench.measure.load.serving import Batching, Server  # which need NumPy

        assert self._opened is not None
        batching = Batching(most=most, delay_ns=delay_ns)
        self._servers.append(Server(self._opened.session, self._opened.requests, worker, batching))
        return {"num_rows": len(self._opened.requests)}

    def learn_answers(self) -> dict[str, Any]:
        """See `Server.learn`; `most` are the most requests of an inference, `longest_ns` is that of the longest one."""
        most = min([server.learn() for server in self._servers])
        return {"most": most, "longest_ns": max(server.longest_ns for server in self._servers)}

    def serve(self, *, requests: str, answers: str, polls: bool) -> dict[str, Any]:
        """Serve the requests of a queue, with each session until a request tells it to stop; see `serving.serve`.

        Args:
            requests: path of the pipe of requests.
            answers: path of the pipe of answers.
            polls: as of `serving.serve`.
        """
        from bench.measure.load.serving import serve  # which needs NumPy

        return serve(self._servers, Path(requests), Path(answers), polls=polls)

    def finish(self) -> dict[str, Any]:
        """Record the memory of the steady state and close the session."""
        assert self._opened is not None
        opened, self._opened = self._opened, None
        with opened.session, opened.memory.phase("steady"):
            opened.session.run(opened.requests[0])
        return {"memory": opened.memory.as_json()}
