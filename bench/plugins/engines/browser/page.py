"""A page as a program beside the worker: it opens artifacts, runs them and times itself.

Questions go over the pipe of the browser's DevTools, arrays over HTTP on the loopback. At each burst, the page's clock
is compared with this process's.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import resource
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import npm
from bench.api.errors import ArtifactError
from bench.api.program import Answer, Program, packed, unpacked
from bench.plugins.engines.browser.browser import NO_SANDBOX, Browser
from bench.plugins.engines.browser.server import Server

if TYPE_CHECKING:
    import numpy as np

HERE = Path(__file__).parent
_PAGES = {"": HERE, "shared": npm.LISTS}
_WORK_MS = 60
"""Time for which the page computes, so that its process is told from others by the processor time."""
GZIP_LEVEL = 6
"""The level of gzip at which servers such as Apache compress where nothing else is set."""
_SLOWED_MS = 2000
"""Time that a few timers of no delay take one after the other where a browser lets a page have one a second."""
_LEAST_BURSTS = 8
_LATE_NS, _LATE_SHARE = 25_000_000, 0.5
"""By how much the worker may see the median burst end later than the page does, beside what a question costs."""
_DRIFT = 0.01
"""Share by which the page's clock may run faster or slower than this process's from the first answer to a later one."""
_CAUSE = "ERROR"
"""Begins the line of LiteRT.js that tells why; the lines after it tell what came of it."""
_WASM_BYTES = 4 << 30
_OUT_OF_MEMORY = (
    "out of memory",
    "allocation failed",
    "bad_alloc",
    "failed to allocate",
)


class Page(Program):
    """A page in a browser of its own.

    Args:
        command: the browser with its flags.
        engine: the module beside this file that opens artifacts, without its suffix.
        threads: threads of WebAssembly.
        provider: the engine's provider.

    Attributes:
        threads: threads of WebAssembly.
        import_ns: nanoseconds from the navigation until the engine was loaded, without what the harness does besides.
        tick_ns: nanoseconds between two ticks of the page's clock.
        about: what is to be said of where the page runs.
        is_imitated: whether the adapter is one that software imitates.

    Raises:
        ArtifactError: the browser or the engine does not start.
    """

    def __init__(self, command: Sequence[str], *, engine: str, threads: int, provider: str) -> None:
        self.threads = threads
        self._numbers = itertools.count(1)
        self._late_ns: list[int] = []
        self._first: tuple[int, int, int] | None = None
        self._server = Server({**_PAGES, "packages": npm.folder() / "node_modules"})
        try:
            self._browser = Browser(command)
        except BaseException:
            self._server.close()
            raise
        try:
            self._browser.open(self._server.address + "page.html")
            how = {"engine": engine, "threads": threads, "provider": provider}
            started = self.ask("start", how).fields
            if started["timers_ms"] > _SLOWED_MS:
                raise ArtifactError(f"the page is slowed down: timers of no delay took {started['timers_ms']:.0f} ms")
            if not started["isolated"]:
                raise ArtifactError("the page is not isolated from other origins: it has a coarse clock and no threads")
            self._pid = self._renderer()
        except BaseException:
            self.close()
            raise
        self.import_ns = int(started["ns"])
        self.tick_ns = int(started["tick_ns"])
        self.is_imitated = "imitated" in started["about"]
        self.about = {
            "browser": self._browser.product,
            "sandbox": self._sandbox(),
            "clock tick": f"{self.tick_ns / 1e3:g} us",
            **{name: str(value) for name, value in started["about"].items() if name != "imitated"},
        }

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def is_used(self) -> bool:
        """Whether it was asked to open an artifact."""
        return bool(self._server.files)

    def ask(
        self, operation: str, fields: Mapping[str, Any] | None = None, arrays: Mapping[str, np.ndarray] | None = None
    ) -> Answer:
        number = next(self._numbers)
        listed, parts = packed(arrays or {})
        question = {"operation": operation, "number": number, "arrays": listed, **(fields or {})}
        if (artifact := question.pop("artifact", None)) is not None:
            self._server.files[f"artifact/{question['session']}"] = Path(artifact)
        self._server.send(number, parts)
        if operation == "burst":
            self._come_first()
        begin = time.perf_counter_ns()
        try:
            answer = self._browser.evaluate(f"ask({json.dumps(question)})")
        except ArtifactError as error:
            raise ArtifactError(self._public(str(error))) from error
        finally:
            wall_ns = time.perf_counter_ns() - begin
            data = self._server.received(number)
        if "error" in answer:
            raise self._error(answer)
        self._check_clock(begin, begin + wall_ns, int(answer["clock_ns"]))
        if answer["visibility"] != "visible":
            raise ArtifactError(f"the page is {answer['visibility']}: a browser slows such a page down")
        if operation == "burst":
            self._check_pace(answer, wall_ns)
        return Answer(answer, unpacked(answer.pop("arrays", ()), data))

    def _error(self, answer: Mapping[str, Any]) -> Exception:
        reason = self._public(str(answer["error"]))
        if any(words in reason.lower() for words in _OUT_OF_MEMORY):
            if 0 <= resource.getrlimit(resource.RLIMIT_DATA)[0] < _WASM_BYTES:  # the browser has the worker's limit
                return MemoryError(reason)
            return ArtifactError(f"out of memory: WebAssembly has 4 GiB at most ({reason})")
        said = [line for line in map(self._public, answer.get("lines", ())) if line not in reason]
        cause = next((line for line in said if line.startswith(_CAUSE)), said[-1] if said else "")
        return ArtifactError(f"{reason} ({cause})" if cause else reason)

    def _public(self, text: str) -> str:
        """A text of the page without the address of its files, which is another in each page and has a secret part."""
        return text.replace(self._server.address, "")

    def _check_clock(self, begin_ns: int, end_ns: int, clock_ns: int) -> None:
        """Compare the time since an earlier answer by the page's clock with that by this process's.

        The page read its clock between the beginning and the end of its question, so both are known to the length of
        two questions, of which the first is a short one: that is little beside the seconds of a worker.

        Raises:
            ArtifactError: they differ by more than that and a share.
        """
        if self._first is None or end_ns - begin_ns < (self._first[1] - self._first[0]) / 2:
            self._first = begin_ns, end_ns, clock_ns
            return
        first_begin_ns, first_end_ns, first_clock_ns = self._first
        least_ns, most_ns, by_page_ns = begin_ns - first_end_ns, end_ns - first_begin_ns, clock_ns - first_clock_ns
        if not (1 - _DRIFT) * least_ns <= by_page_ns <= (1 + _DRIFT) * most_ns:
            here = f"{least_ns / 1e6:.3f} to {most_ns / 1e6:.3f} ms"
            raise ArtifactError(f"the page's clock cannot be trusted: {by_page_ns / 1e6:.3f} ms there were {here} here")

    def _check_pace(self, answer: Mapping[str, Any], wall_ns: int) -> None:
        """Compare the page's clock with this process's over one burst.

        A burst lies within its question, so that it is no longer. How much shorter it is varies with what else the
        machine does: of that, the median of the bursts so far has a limit.

        Raises:
            ArtifactError: the clocks do not agree.
        """
        samples = [*answer["cold"], *answer["steady"]]
        if min(samples) <= 0:
            raise ArtifactError(f"an inference is shorter than a tick of the page's clock, {self.tick_ns / 1e3:g} us")
        span_ns, sum_ns = int(answer["span_ns"]), sum(samples)
        self._late_ns.append(wall_ns - span_ns)
        late_ns = statistics.median(self._late_ns)
        is_late = len(self._late_ns) >= _LEAST_BURSTS and late_ns > _LATE_NS + _LATE_SHARE * span_ns
        if sum_ns > span_ns or span_ns > wall_ns or is_late:
            ran = f"{sum_ns / 1e6:.3f} ms of inferences in a burst of {span_ns / 1e6:.3f} ms"
            raise ArtifactError(f"the page's clock cannot be trusted: {ran}, which took {wall_ns / 1e6:.3f} ms here")

    def _renderer(self) -> int:
        """The process of the page: of those that run pages, the one that computes when the page does."""
        before = self._browser.renderers()
        if len(before) > 1:
            self.ask("work", {"ms": _WORK_MS})
            after = self._browser.renderers()
            return max(before, key=lambda pid: after.get(pid, 0.0) - before[pid])
        return next(iter(before))

    def _come_first(self) -> None:
        """Give the page the priority of this process, which the browser has taken from its threads."""
        if (priority := os.getpriority(os.PRIO_PROCESS, 0)) >= 0:
            return
        for thread in Path("/proc", str(self._pid), "task").iterdir():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                os.setpriority(os.PRIO_PROCESS, int(thread.name), priority)

    def _sandbox(self) -> str:
        """Whether the page's process has the browser's sandbox: its flag may come from here or from the system."""
        command = Path("/proc", str(self._pid), "cmdline").read_bytes()  # a title: words with spaces between
        if NO_SANDBOX.encode() not in command.replace(b"\0", b" ").split():
            return "on"
        return "off, as root" if os.geteuid() == 0 else "off"

    def download_bytes(self, artifact: Path) -> int:
        """Bytes that a visitor downloads, compressed by gzip: the engine's files that were loaded, and the artifact."""
        ours = (HERE.resolve(), npm.LISTS.resolve())
        own = [file for file in self._server.served if file.parent not in ours]
        return sum(len(gzip.compress(file.read_bytes(), GZIP_LEVEL)) for file in (*own, artifact))

    def close(self) -> None:
        self._browser.close()
        self._server.close()
