"""onnxscript: the optimizer behind PyTorch's newer exporter."""

from pathlib import Path

from bench.api import Info, Task, Variant
from bench.graphs.deferred import onnx
from bench.plugins.engines.notes import drop_metadata


class OnnxScript(Variant):
    """Folds small constants and rewrites patterns; `ort` fuses nodes into operators that only ONNX Runtime has.

    PyTorch's newer exporter has applied the variant without an option already. The fact `fused` counts the fusions: a
    plain attention becomes a MultiHeadAttention, but in exports of ALBERT only normalizations are fused (onnxscript
    0.7.2, torch 2.13.0).
    """

    requires = ("onnxscript", "onnx_ir", "onnx")
    extra = "torch"
    options = ("", "ort")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        import onnx_ir
        from onnxscript import optimizer
        from onnxscript.rewriter import ort_fusions

        model = onnx_ir.from_proto(onnx.load(source))
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
