"""onnx/optimizer: passes that eliminate superfluous nodes and fuse neighbours."""

from pathlib import Path

from bench.api import Info, Task, Variant
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.normalized import inline_functions

UNSAFE = {
    "lift_lexical_references": "adds Caffe2's control inputs to nodes, or gives up at the first weight",
    "rename_input_output": "renames inputs and outputs",
    "rewrite_input_dtype": "makes int32 of int64 inputs",
    "split_init": "keeps only what can be computed without an input",
    "split_predict": "keeps only what cannot be computed without an input",
}
"""Passes that break a model, each with the reason."""


class OnnxOptimizer(Variant):
    """Runs every safe pass that the installed package offers, or every safe pass of one kind, once.

    `eliminate` removes nodes that do nothing, are not used or repeat another node; `fuse` merges neighbours into one
    node. Without an option a few passes are added that rewrite nodes for the other passes.
    """

    portable = True
    requires = ("onnxoptimizer", "onnx")
    options = ("", "eliminate", "fuse")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        import onnxoptimizer

        # A pass is named for its kind first: `fuse_bn_into_conv`.
        prefix = f"{option}_" if option else ""
        available = onnxoptimizer.get_available_passes()
        passes = [name for name in available if name.startswith(prefix) and name not in UNSAFE]
        model = inline_functions(onnx.load(source))  # onnxoptimizer drops functions and keeps the calls to them
        onnx.save(onnxoptimizer.optimize(model, passes), target)
        return {"passes": passes}
