"""ONNX Runtime's transformer optimizer: Python patterns that fuse attention, normalization and GELU."""

from pathlib import Path

from bench.api import Info, Task, Variant
from bench.onnxfile.deferred import onnx
from bench.onnxfile.diff.same_outputs import check_same_outputs
from bench.onnxfile.file.normalized import inline_functions
from bench.onnxfile.shapes.attention import find_attention
from bench.plugins.engines.onnxruntime.optimized import load_optimized

_MODEL_TYPES = {"tf2onnx": "bert_tf"}
"""Sets of patterns by the producer of the file; `bert` serves all other producers."""


class OrtTransformers(Variant):
    """Fusions for encoders like BERT, with the numbers of heads that the graph itself shows.

    The optimizer trusts the number of heads and the hidden size in its arguments, and wrong numbers give a wrong model.
    So both are read from the graph first, or the step is refused; and the outputs are compared with the source's.
    ONNX Runtime's basic level runs before, as in the optimizer's default for files of PyTorch, which imports torch.

    The fact `fused` counts the fusions. In the ALBERT of PyTorch's newer exporter and of tf2onnx, normalization and
    GELU are fused, but no attention: the patterns know neither the guard against NaN behind the Softmax nor how Keras
    splits heads (ONNX Runtime 1.31.1, torch 2.13.0). A fused attention holds weights of its own: if layers share
    weights, the file grows, an ALBERT-base of PyTorch's older exporter from 47 to 125 MB.
    """

    requires = ("onnxruntime", "onnx", "sympy")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        original = inline_functions(onnx.load(source))
        attention = find_attention(original, task)
        # ConstantSharing hides the patterns.
        model = load_optimized(original.SerializeToString(), level="basic", without=["ConstantSharing"])
        from onnxruntime.transformers import fusion_options, optimizer

        model_type = _MODEL_TYPES.get(original.producer_name, "bert")
        options = fusion_options.FusionOptions(model_type)
        options.use_raw_attention_mask(True)  # by default, unmasked tokens are taken to come first
        sizes = {"num_heads": attention.num_heads, "hidden_size": attention.hidden_size}
        fused = optimizer.optimize_by_fusion(model, model_type, **sizes, optimization_options=options)
        check_same_outputs(original, fused.model, task)
        onnx.save(fused.model, target)
        counts = {name: count for name, count in fused.get_fused_operator_statistics().items() if count}
        return {**sizes, "num_layers": attention.num_layers, "fused": counts}
