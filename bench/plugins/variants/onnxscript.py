"""onnxscript: the optimizer behind PyTorch's newer exporter."""

from pathlib import Path

from bench.api import Info, Task, Variant
from bench.onnxfile.deferred import onnx
from bench.onnxfile.edits.opset import opset_of, raise_opset
from bench.plugins.engines.notes import drop_metadata

_OPSET = 18
"""The newest operator set that a rule needs: `Split` with a number of outputs. Applied to older files, rules read the
attributes of a Pad or Clip as inputs, and write a Reshape with `allowzero` (onnxscript 0.7.2)."""


class OnnxScript(Variant):
    """Folds small constants and rewrites patterns; `ort` fuses nodes into operators that only ONNX Runtime has.

    An operator set older than the rules know is raised first.
    PyTorch's newer exporter has applied the variant without an option already. The fact `fused` counts the fusions: a
    plain attention becomes a MultiHeadAttention, but in exports of ALBERT only normalizations are fused (onnxscript
    0.7.2, torch 2.13.0).
    """

    portable = True
    requires = ("onnxscript", "onnx_ir", "onnx")
    extra = "torch"
    options = ("", "ort")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        import onnx_ir
        from onnxscript import optimizer
        from onnxscript.rewriter import ort_fusions

        proto = onnx.load(source)
        if opset_of(proto):  # the rules are about ONNX's own operators
            proto = raise_opset(proto, _OPSET, task)
        model = onnx_ir.from_proto(proto)
        info: Info = {}
        if option == "ort":
            model, fused = ort_fusions.optimize_for_ort(model)
            info["fused"] = {name: count for name, count in fused.items() if count}
        else:
            optimizer.optimize(model)
        proto = onnx_ir.to_proto(model)
        # The notes on each folding make the file larger.
        drop_metadata(proto)
        onnx.save(proto, target)
        return info
