"""LiteRT.js in a page: WebAssembly with XNNPACK, for files of fixed sizes."""

from bench.api import Task
from bench.plugins.engines.browser.runtime import BrowserRuntime

_WIDE = ("int64", "uint64", "float64")


class LiteRtJs(BrowserRuntime):
    """Opens `.tflite` files by their bytes, on one thread or several.

    Node.js cannot run it: its loader fetches a script by an address and adds an element to a document.
    """

    title = "LiteRT.js"
    requires = ("npm:@litertjs/core",)
    formats = ("tflite",)
    engine = "litert"

    def refusal(self, task: Task) -> str | None:
        wide = [spec.name for spec in (*task.inputs, *task.outputs) if spec.dtype in _WIDE]
        return super().refusal(task) or (f"it has no numbers of 64 bits, and {wide[0]!r} holds such" if wide else None)
