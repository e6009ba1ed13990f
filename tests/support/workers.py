"""Long-lived framework workers: a framework is imported once for all tests of a process, not once for each of them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.api import Plugin, cache, loading
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ChildError
from bench.measure.interpreter import OWN, Interpreter
from bench.measure.limits import Limits
from bench.measure.process import Child, ask_once, thread_environment
from bench.measure.session import Worker
from bench.pipeline import opening, operations, prepare, verify
from bench.plugins import catalog
from bench.records.lines import Quality
from support import plugin_child

_BACKEND = "tensorflow"
"""Keras's backend in the workers."""
LIMITS = Limits.of(step_s=600, memory_bytes=None)
MOST_LIVING = 5
"""Workers that are kept at a time: each has a framework in memory."""
SLOW_TO_START = ("tensorflow", "torch")
ENDED = ("exit", "memory", "signal", "timeout")
"""Kinds of `ChildError` after which a worker is dead or of no more use."""

Key = tuple[str, str, tuple[tuple[str, str], ...]]
OF_GRAPHS: Key = ("onnx", "graphs", ())
"""All variants on ONNX graphs share a worker: the packages that rewrite these are small, and work beside each other."""


class Workers:
    """Children of the harness that answer the requests of many tests, started when first needed.

    Requests share a worker if they need the same framework, the same provider (TensorFlow's `cpu-bf16` sets an option
    of the whole process) and the same environment variables. A worker that died is replaced at the next request.
    """

    def __init__(self) -> None:
        self._living: dict[Key, Child] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._living.values():
            child.close()

    def run(self, operation: Callable[..., Any], *, runtime: str, provider: str, **arguments: Any) -> dict[str, Any]:
        """Make a request that opens an artifact in a runtime, on one thread.

        Raises:
            ChildError: as `Child.request`.
        """
        key = _key_of_runtime(runtime, provider)
        return self._request(key, operation, {"runtime": runtime, "provider": provider, **arguments})

    def build(self, operation: Callable[..., Any], *, source: str, **arguments: Any) -> dict[str, Any]:
        """Make a request that builds a model of a source, in a worker in which no runtime opens any.

        Raises:
            ChildError: as `Child.request`.
        """
        return self._request(_key_of_source(source), operation, {"source": source, **arguments})

    def transform(self, *, variant: str, **arguments: Any) -> dict[str, Any]:
        """Apply a variant to an artifact.

        Raises:
            ChildError: as `Child.request`; its kind is `refused` where the variant refuses the artifact.
        """
        found = catalog.variant(variant).variant
        key = OF_GRAPHS if "onnx" in found.formats else _key(found, "", {})
        return self._request(key, operations.transform, {"variant": variant, **arguments})

    def artifact_of(self, cell: Cell) -> Artifact:
        """The artifact of a cell, from the cache that all processes of this test session share, or made now.

        Raises:
            ArtifactError: as `prepare.artifact_of`.
        """
        lock = cache.folder() / "-".join((str(cell.task), cell.source, str(cell.exporter), cell.variant, "lock"))
        lock.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("w") as file, pytest.MonkeyPatch.context() as patch:
            fcntl.flock(file, fcntl.LOCK_EX)  # another process of this session may be making it
            patch.setattr(prepare, "ask_once", self._ask_once)
            return prepare.artifact_of(cell, LIMITS)

    def verify(
        self,
        cell: Cell,
        artifact: Artifact,
        reference: Path | None,
        *,
        save_outputs: Path,
        few: bool = False,
    ) -> Quality:
        """As `verify.verify`, of the whole split or of its first samples, see `plugin_child.verify_few`.

        Raises:
            ChildError: the artifact does not run.
        """
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(opening, "worker", self._lend)
            if few:
                patch.setattr(operations, "verify", plugin_child.verify_few)
            return verify.verify(cell, artifact, reference, LIMITS, save_outputs=save_outputs)

    def _ask_once(
        self,
        operation: Callable[..., Any],
        *,
        timeout_s: float,
        memory_bytes: int,
        interpreter: Interpreter = OWN,
        modules: Sequence[str] | None = None,
        **request: Any,
    ) -> Any:
        """The stand-in for `bench.measure.process.ask_once`: a worker keeps what the first request has imported."""
        assert interpreter == OWN
        if getattr(catalog.exporter(request.get("exporter", "native")), "backend", _BACKEND) != _BACKEND:
            limits = {"timeout_s": timeout_s, "memory_bytes": memory_bytes}
            return ask_once(operation, **limits, **request)  # Keras keeps one backend for a whole process
        if "variant" in request:
            return self.transform(**request)
        return self._request(_key_of_source(request["source"]), operation, request)

    @contextlib.contextmanager
    def _lend(self, cell: Cell, *, memory_bytes: int | None = None) -> Iterator[Child]:
        """The stand-in for `opening.worker`."""
        key = _key_of_runtime(str(cell.runtime), str(cell.provider))
        try:
            yield self._child(key)
        except ChildError as error:
            self._after(key, error)
            raise

    def _request(self, key: Key, operation: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._child(key).request(operation, timeout_s=LIMITS.prepare_s, **arguments)
        except ChildError as error:
            self._after(key, error)
            raise

    def _child(self, key: Key) -> Child:
        child = self._living.pop(key, None)
        if child is None:
            if len(self._living) == MOST_LIVING:
                # The one that was used longest ago, and rather one that starts in no time.
                self._living.pop(min(self._living, key=lambda key: key[0] in SLOW_TO_START)).close()
            tests = str(Path(__file__).parents[1])
            path = os.pathsep.join(filter(None, (tests, os.environ.get("PYTHONPATH"))))
            environment = {"PYTHONPATH": path, **thread_environment(1), **dict(key[2])}
            child = Child(environment=environment, memory_bytes=LIMITS.memory_bytes)
            Child.living.discard(child)  # tests of `kill_all` are about their own children
            _share_the_processor(child)
        self._living[key] = child
        return child

    def _after(self, key: Key, error: ChildError) -> None:
        if error.kind in ENDED:
            self._living.pop(key).close()


def _share_the_processor(child: Child) -> None:
    """Take back the priority that a worker gives itself to be measured: here it would keep other tests waiting."""
    child.request(Worker.protection, timeout_s=LIMITS.open_s)  # it answers when it has its priority
    os.setpriority(os.PRIO_PROCESS, child.pid, 0)
    with contextlib.suppress(OSError):
        Path(f"/proc/{child.pid}/autogroup").write_text("0")


def _key(plugin: Plugin, provider: str, environment: dict[str, str]) -> Key:
    return next(iter(plugin.requires), ""), provider, tuple(sorted(environment.items()))


def _key_of_runtime(name: str, provider: str) -> Key:
    runtime = catalog.runtime(name)
    return _key(runtime, provider, runtime.environment(1))


def _key_of_source(source: str) -> Key:
    """The key of a worker that exports models of a source; the framework is that of the source's own runtime.

    No runtime opens a model there: TensorFlow takes no number of threads once it has computed something.
    """
    own_form = next(found for found in map(catalog.exporter, loading.find("exporters")) if not found.sources)
    runtimes = map(catalog.runtime, loading.find("runtimes"))
    opener = next(runtime for runtime in runtimes if own_form.format(source) in runtime.default_for)
    return _key(opener, "export", opener.environment(1))
