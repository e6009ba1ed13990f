"""onnx/optimizer: passes that eliminate superfluous nodes and fuse neighbours."""

from pathlib import Path
from typing import Any

from bench.api import Task, Variant

UNSAFE = {
    "lift_lexical_references": "adds Caffe2's control inputs to nodes, or gives up at the first weight",
    "rename_input_output": "renames inputs and outputs",
    "rewrite_input_dtype": "makes int32 of int64 inputs",
    "split_init": "keeps only what can be computed without an input",
    "split_predict": "keeps only what cannot be computed without an input",
}
"""Passes after which it is another model, or none, and why."""


class OnnxOptimizer(Variant):
    """Every pass that the installed package offers but for the unsafe ones, or those of one kind; once through.

    `eliminate` takes away nodes that do nothing, are not used or do the same as another; `fuse` merges neighbours into
    one. Without an option there are also a few passes that rewrite nodes for others to find.
    """

    requires = ("onnxoptimizer", "onnx")
    options = ("", "eliminate", "fuse")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> dict[str, Any]:
        import onnx
        import onnx.inliner
        import onnxoptimizer

        # A pass is named for its kind first: `fuse_bn_into_conv`.
        prefix = f"{option}_" if option else ""
        available = onnxoptimizer.get_available_passes()
        passes = [name for name in available if name.startswith(prefix) and name not in UNSAFE]
        model = onnx.load(source)
        if model.functions:  # it would drop them and keep the calls
            model = onnx.inliner.inline_local_functions(model)
        onnx.save(onnxoptimizer.optimize(model, passes), target)
        return {"passes": passes}
