"""onnxruntime-web in Node.js: the WebAssembly of a page without a browser, as tests and servers run it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import npm
from bench.api.program import ProgramRuntime
from bench.plugins.engines.browser.runtime import THREADS


class OrtWebNode(ProgramRuntime):
    """Opens ONNX files by their bytes, on one thread or several."""

    title = "ONNX Runtime Web in Node.js"
    requires = ("npm:onnxruntime-web",)
    formats = ("onnx",)
    inspects_with = ("onnxruntime",)
    own_sweep = "web"

    def environment(self, threads: int) -> dict[str, str]:
        return {npm.FOLDER: str(npm.folder()), THREADS: str(threads)}

    def inspect(self, artifact: Path, *, provider: str, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """The precision in which Python's ONNX Runtime multiplies; JavaScript's, another version, does not tell."""
        from bench.plugins.engines.onnxruntime import precision

        return {"precision": precision.multiplies_in(artifact)}

    def command(self) -> list[str]:
        worker = str(npm.LISTS / "worker.mjs")
        return [npm.node() or "node", "--expose-gc", worker, str(npm.folder()), "onnxruntime-web"]

    def files(self) -> list[Path]:
        return npm.files()

    def program_versions(self) -> dict[str, str]:
        return {"node": npm.node_version()}
