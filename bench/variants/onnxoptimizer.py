"""onnx/optimizer: its default passes, which eliminate and fuse nodes."""

from pathlib import Path
from typing import Any

from bench.analysis.interface import check_interface
from bench.api import Task, Variant


class OnnxOptimizer(Variant):
    """The fuse and elimination passes that onnxoptimizer runs when none are named, once through."""

    requires = ("onnxoptimizer", "onnx")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> dict[str, Any]:
        import onnx
        import onnxoptimizer

        passes = onnxoptimizer.get_fuse_and_elimination_passes()
        onnx.save(onnxoptimizer.optimize(onnx.load(source), passes), target)
        check_interface(target, task)
        return {"passes": passes}
