"""What the runtimes in a browser share: each is a module of JavaScript in the page, and a few lines beside it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from bench.api import Session, Task, npm
from bench.api.errors import ArtifactError
from bench.api.program import BROWSER, Program, ProgramRuntime, ProgramSession
from bench.plugins.engines.browser import browser
from bench.plugins.engines.browser.page import HERE, Page

THREADS = "INFEROMETER_THREADS"
"""Variable that says a page's threads, which it must know before it loads its engine."""
_IMITATED = "a software adapter imitates the device: its outputs are verified, its times say nothing"


class BrowserRuntime(ProgramRuntime):
    """A runtime in a page of headless Chromium."""

    own_sweep = "web"
    engine: ClassVar[str]
    """The module of JavaScript, beside this file, that opens artifacts."""
    provider: ClassVar[str] = "wasm"
    """The engine's own name of its provider."""

    def skip(self) -> str | None:
        return super().skip() or browser.lacking()

    def environment(self, threads: int) -> dict[str, str]:
        return {npm.FOLDER: str(npm.folder()), BROWSER: browser.path() or "", THREADS: str(threads)}

    def command(self) -> list[str]:
        return browser.command(*(() if self.provider == "webgpu" else ("--disable-gpu",)))

    def files(self) -> list[Path]:
        return [*npm.files(), *(path for path in HERE.iterdir() if path.suffix in (".html", ".mjs"))]

    def program_versions(self) -> dict[str, str]:
        return {"chromium": f"{version}+{browser.build()}"} if (version := browser.version()) else {}

    def program_import_ns(self) -> int | None:
        page = type(self).running
        return page.import_ns if isinstance(page, Page) else None

    def start(self) -> Program:
        return self._started(int(os.environ.get(THREADS, "1")))

    def _started(self, threads: int) -> Page:
        return Page(self.command(), engine=self.engine, threads=threads, provider=self.provider)

    def _page(self, threads: int) -> Page:
        """The page of this process that has so many threads: outside a worker, nothing has told them before."""
        self.import_packages()
        page = type(self).running
        assert isinstance(page, Page)
        if page.threads == threads:
            return page
        if not page.is_used:
            type(self).running = None  # also where no other starts
            page.close()
        type(self).running = page = self._started(threads)
        return page

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        page = self._page(threads)
        opened = self._opened(page, artifact, task, provider, threads)
        return BrowserSession(page, artifact, task, *opened)


class BrowserSession(ProgramSession):
    """An artifact that a page has opened."""

    def __init__(self, page: Page, artifact: Path, task: Task, number: int, opened: Mapping[str, Any]) -> None:
        super().__init__(page, task, number, opened)
        self._page, self._artifact = page, artifact
        self.untimed = _IMITATED if page.is_imitated else None
        self.tick_ns, self.about = page.tick_ns, page.about

    def __exit__(self, *error: object) -> None:
        """Close; after an error, that error tells more than what a page without memory or process says of it."""
        if error[0] is None:
            self.close()
            return
        with contextlib.suppress(ArtifactError):
            self.close()

    @property
    def download_bytes(self) -> int:  # type: ignore[override]
        """See `Session.download_bytes`; computed where it is read."""
        return self._page.download_bytes(self._artifact)
