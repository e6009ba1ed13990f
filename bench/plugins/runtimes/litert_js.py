"""LiteRT.js in a page: WebAssembly with XNNPACK."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Session, Task
from bench.plugins.engines import litert, litert_static
from bench.plugins.engines.browser.page import Page
from bench.plugins.engines.browser.runtime import BrowserRuntime, BrowserSession

_WIDE = ("int64", "uint64", "float64")


class LiteRtJs(BrowserRuntime):
    """Opens `.tflite` files by their bytes, on one thread or several.

    It takes fixed sizes alone: of a file that leaves sizes open, the page opens a copy with those of the request.
    Node.js cannot run it: its loader adds a script to a document.
    """

    title = "LiteRT.js"
    requires = ("npm:@litertjs/core", "ai_edge_litert")
    extra = "litert"
    imports = ()
    formats = ("tflite",)
    engine = "litert"

    def refusal(self, task: Task) -> str | None:
        wide = [spec.name for spec in (*task.inputs, *task.outputs) if spec.dtype in _WIDE]
        return super().refusal(task) or (f"it has no numbers of 64 bits, and {wide[0]!r} holds such" if wide else None)

    def inspect(self, artifact: Path, *, provider: str, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """The precision of the file's tensors, as LiteRT has it here."""
        from ai_edge_litert.interpreter import Interpreter

        return {"precision": litert.precision_of(Interpreter(str(artifact)))}

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        page = self._page(threads)

        def opened(path: Path) -> tuple[int, Mapping[str, Any]]:
            return self._opened(page, path, task, provider, threads)

        number, fields = opened(artifact)
        if not fields["is_static"]:
            return FixingSession(page, artifact, task, number, fields, opened)
        return BrowserSession(page, artifact, task, number, fields)


class FixingSession(BrowserSession):
    """A file that leaves sizes open, of which the page has a copy with the sizes of the request."""

    def __init__(
        self, page: Page, artifact: Path, task: Task, number: int, fields: Mapping[str, Any], opened: Any
    ) -> None:
        super().__init__(page, artifact, task, number, fields)
        self.about = {**self.about, "sizes": "fixed to those of a request"}
        self._source, self._open, self._sizes = artifact, opened, dict[str, tuple[int, ...]]()
        self._folder = tempfile.TemporaryDirectory()

    def run(self, feeds: Arrays) -> Outputs:
        self._fix(feeds)
        return super().run(feeds)

    def burst(self, feeds: Arrays, plan: Mapping[str, int]) -> tuple[list[int], list[int]]:
        self._fix(feeds)
        return super().burst(feeds, plan)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._folder.cleanup()

    def _fix(self, feeds: Arrays) -> None:
        """Open a copy with the sizes of a request, unless it is open."""
        sizes = {name: feeds[name].shape for name in self._inputs}
        if sizes == self._sizes:
            return
        self._artifact = Path(self._folder.name, "fixed.tflite")
        litert_static.write(self._source, sizes, self._artifact)
        self._sizes = {}  # until the copy is open
        super().close()
        self._number, fields = self._open(self._artifact)
        self.load_ns, self._sizes = fields["ns"], sizes
        self._known.clear()
