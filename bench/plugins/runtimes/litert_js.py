"""LiteRT.js in a page: WebAssembly with XNNPACK."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Session, Task
from bench.api.program import Answer
from bench.onnxfile.deferred import np
from bench.plugins.engines import litert, litert_narrow, litert_static
from bench.plugins.engines.browser.page import Page
from bench.plugins.engines.browser.runtime import BrowserRuntime, BrowserSession

_WIDE = ("uint64", "float64")
_NARROWED = "int64"


class LiteRtJs(BrowserRuntime):
    """Opens `.tflite` files by their bytes, on one thread or several.

    It takes fixed sizes alone: of a file that leaves sizes open, the page opens a copy with those of the request. The
    peak of its memory then includes the first opening, of the file as it is: memory of WebAssembly never shrinks.
    It has no int64: of a file whose inputs or outputs are such, the page opens a copy with int32 in their place.
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
        return super().refusal(task) or (f"it has no {' or '.join(_WIDE)}, and {wide[0]!r} is such" if wide else None)

    def inspect(self, artifact: Path, *, provider: str, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """The precision of the file's tensors, as LiteRT has it here."""
        from ai_edge_litert.interpreter import Interpreter

        return {"precision": litert.precision_of(Interpreter(str(artifact)))}

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        page = self._page(threads)
        folder = tempfile.TemporaryDirectory()
        try:
            source_file = artifact
            if _has_narrowed(task):
                source_file = Path(folder.name, "narrow.tflite")
                litert_narrow.write(artifact, source_file)

            def opened(path: Path) -> tuple[int, Mapping[str, Any]]:
                return self._opened(page, path, task, provider, threads)

            number, fields = opened(source_file)
        except BaseException:
            folder.cleanup()
            raise
        if not fields["is_static"]:
            return FixingSession(page, source_file, task, number, fields, folder, opened)
        return LiteRtJsSession(page, source_file, task, number, fields, folder)


def _has_narrowed(task: Task) -> bool:
    """Whether an input or output of a task is of the integers that LiteRT.js does not have."""
    return any(spec.dtype == _NARROWED for spec in (*task.inputs, *task.outputs))


class LiteRtJsSession(BrowserSession):
    """A file that a page has opened, to which int64 goes as int32, and from which it comes back.

    Args:
        folder: where copies of the file are, removed at the end.
    """

    def __init__(
        self,
        page: Page,
        artifact: Path,
        task: Task,
        number: int,
        fields: Mapping[str, Any],
        folder: tempfile.TemporaryDirectory[str],
    ) -> None:
        super().__init__(page, artifact, task, number, fields)
        self._folder = folder
        self._is_wide = [spec.dtype == _NARROWED for spec in task.outputs]
        if _has_narrowed(task):
            self.about = {**self.about, "integers": "int32 in place of int64"}

    def run(self, feeds: Arrays) -> Outputs:
        outputs = super().run(feeds)
        return [
            output.astype(_NARROWED) if is_wide else output
            for output, is_wide in zip(outputs, self._is_wide, strict=True)
        ]

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._folder.cleanup()

    def _ask(self, operation: str, fields: Mapping[str, Any] | None = None, arrays: Arrays | None = None) -> Answer:
        narrow = {
            name: litert_narrow.narrow(values, name) if values.dtype == np.int64 else values
            for name, values in (arrays or {}).items()
        }
        return super()._ask(operation, fields, narrow)


class FixingSession(LiteRtJsSession):
    """A file that leaves sizes open, of which the page has a copy with the sizes of the request."""

    def __init__(
        self,
        page: Page,
        artifact: Path,
        task: Task,
        number: int,
        fields: Mapping[str, Any],
        folder: tempfile.TemporaryDirectory[str],
        opened: Callable[[Path], tuple[int, Mapping[str, Any]]],
    ) -> None:
        super().__init__(page, artifact, task, number, fields, folder)
        self.about = {**self.about, "sizes": "fixed to those of a request"}
        self._source, self._open, self._sizes = artifact, opened, dict[str, tuple[int, ...]]()

    def run(self, feeds: Arrays) -> Outputs:
        self._fix(feeds)
        return super().run(feeds)

    def burst(self, feeds: Arrays, plan: Mapping[str, int]) -> tuple[list[int], list[int]]:
        self._fix(feeds)
        return super().burst(feeds, plan)

    def _fix(self, feeds: Arrays) -> None:
        """Open a copy with the sizes of a request, unless it is open."""
        sizes = {name: feeds[name].shape for name in self._inputs}
        if sizes == self._sizes:
            return
        self._artifact = Path(self._folder.name, "fixed.tflite")
        litert_static.write(self._source, sizes, self._artifact)
        self._sizes = {}  # until the copy is open
        self._ask("close")
        self._number, _ = self._open(self._artifact)  # the first opening was the cold one, whose time is `load_ns`
        self._sizes = sizes
        self._known.clear()
