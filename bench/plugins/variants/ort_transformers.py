"""ONNX Runtime's transformer optimizer: Python patterns that fuse attention, normalization and GELU."""

import tempfile
from pathlib import Path
from typing import Any

from bench.api import Task, Variant
from bench.graphs.diff.same_outputs import check_same_outputs
from bench.graphs.shapes.attention import find_attention
from bench.plugins.engines.onnxruntime.optimized import write_optimized

MODEL_TYPES = {"tf2onnx": "bert_tf"}
"""Patterns for a file by its producer; `bert` is for the others."""


class OrtTransformers(Variant):
    """Fusions for encoders like BERT, with the numbers of heads that the graph itself shows.

    The optimizer takes heads and hidden size on trust where it cannot read them off, and with wrong ones makes another
    model. Here they are found first, or the step is refused; and what comes out is run beside what went in. As the
    optimizer does by default for files of PyTorch, but without its import of torch, ONNX Runtime's own basic level runs
    before.

    What was fused is in `fused`. In what PyTorch's newer exporter and tf2onnx write of ALBERT that is normalization and
    GELU, but no attention: the patterns do not know the guard against NaN behind the Softmax, nor how Keras splits its
    heads (ONNX Runtime 1.31.1, torch 2.13.0). A fused attention holds weights of its own: with layers that share theirs
    the file grows, an ALBERT-base of PyTorch's older exporter from 47 to 125 MB.
    """

    requires = ("onnxruntime", "onnx", "sympy")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> dict[str, Any]:
        import onnx
        import onnx.inliner

        original = onnx.load(source)
        if original.functions:
            original = onnx.inliner.inline_local_functions(original)
        attention = find_attention(original, task)
        model = _basic(original)
        from onnxruntime.transformers import fusion_options, optimizer

        model_type = MODEL_TYPES.get(original.producer_name, "bert")
        options = fusion_options.FusionOptions(model_type)
        options.use_raw_attention_mask(True)  # else only the number of unmasked tokens counts, as if they came first
        fused = optimizer.optimize_by_fusion(
            model,
            model_type,
            num_heads=attention.num_heads,
            hidden_size=attention.hidden_size,
            optimization_options=options,
        )
        check_same_outputs(original, fused.model, task)
        onnx.save(fused.model, target)
        counts = fused.get_fused_operator_statistics()
        return {
            "num_heads": attention.num_heads,
            "hidden_size": attention.hidden_size,
            "num_layers": attention.num_layers,
            "fused": {name: count for name, count in counts.items() if count},
        }


def _basic(model: Any) -> Any:
    """The model after ONNX Runtime's basic optimizations, without the one that disturbs the patterns."""
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "basic.onnx")
        write_optimized(model.SerializeToString(), path, level="basic", without=["ConstantSharing"])
        return onnx.load(path)
