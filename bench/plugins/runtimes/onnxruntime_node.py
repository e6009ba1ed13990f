"""ONNX Runtime in Node.js, as servers in JavaScript run it: a program that times itself, see `bench.api.program`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import npm
from bench.api.program import ProgramRuntime


class OnnxRuntimeNode(ProgramRuntime):
    """Opens ONNX files by their path."""

    title = "ONNX Runtime in Node.js"
    requires = ("npm:onnxruntime-node",)
    formats = ("onnx",)
    inspects_with = ("onnxruntime",)

    def environment(self, threads: int) -> dict[str, str]:
        return {npm.FOLDER: str(npm.folder())}  # a worker of another interpreter has packages of its own

    def inspect(self, artifact: Path, *, provider: str, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """The precision in which Python's ONNX Runtime multiplies; JavaScript's, another version, does not tell."""
        from bench.plugins.engines.onnxruntime import precision

        return {"precision": precision.multiplies_in(artifact)}

    def command(self) -> list[str]:
        return [
            npm.node() or "node",
            "--expose-gc",
            str(npm.LISTS / "worker.mjs"),
            str(npm.folder()),
            "onnxruntime-node",
        ]

    def files(self) -> list[Path]:
        return npm.files()

    def program_versions(self) -> dict[str, str]:
        return {"node": npm.node_version()}
