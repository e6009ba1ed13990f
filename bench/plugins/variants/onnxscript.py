"""onnxscript: the optimizer behind PyTorch's newer exporter."""

from pathlib import Path
from typing import Any

from bench.api import Task, Variant
from bench.graphs.file.digest import all_graphs, all_nodes


class OnnxScript(Variant):
    """Folds small constants and rewrites patterns; `ort` then fuses operators that only ONNX Runtime has.

    What PyTorch's newer exporter writes has been through the first already. What was fused is in `fused`: of a plain
    attention a MultiHeadAttention, but in exports of ALBERT only normalizations (onnxscript 0.7.2, torch 2.13.0).
    """

    requires = ("onnxscript", "onnx_ir", "onnx")
    extra = "torch"
    options = ("", "ort")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> dict[str, Any]:
        import onnx
        import onnx_ir
        from onnxscript import optimizer
        from onnxscript.rewriter import ort_fusions

        model = onnx_ir.from_proto(onnx.load(source))
        info: dict[str, Any] = {}
        if option == "ort":
            model, fused = ort_fusions.optimize_for_ort(model)
            info["fused"] = {name: count for name, count in fused.items() if count}
        else:
            optimizer.optimize(model)
        proto = onnx_ir.to_proto(model)
        # Notes on what was folded where: they make the file larger, not smaller.
        for item in (*all_nodes(proto), *all_graphs(proto)):
            item.ClearField("metadata_props")
        for graph in all_graphs(proto):
            for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
                value.ClearField("metadata_props")
        onnx.save(proto, target)
        return info
