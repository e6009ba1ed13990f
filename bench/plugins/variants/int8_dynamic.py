"""ONNX Runtime's dynamic quantization: 8-bit weights, and activations quantized anew at each run."""

import tempfile
from pathlib import Path

from bench.api import Info, Task, Variant
from bench.onnxfile.deferred import onnx
from bench.onnxfile.edits.opset import raise_opset
from bench.onnxfile.edits.rewire import load_settled, matmul_from_gemm
from bench.plugins.engines.onnxruntime.quantized import floats_of, save_quantized

_OPSET = 11
"""ONNX Runtime's quantizer raises older files to this operator set itself, without a look at what they then compute."""
OPERATORS = ("MatMul", "LSTM", "Attention", "Gather", "EmbedLayerNormalization")
"""Operators that get faster or smaller; a quantized convolution is several times slower."""


class Int8Dynamic(Variant):
    """Signed weights of matrix products, LSTMs and embeddings; with the option `all`, of convolutions, too."""

    portable = True
    requires = ("onnxruntime", "onnx", "onnx_ir")
    options = ("", "all")
    lossy = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        model = raise_opset(load_settled(source), _OPSET, task)
        matmul_from_gemm(model)
        operators = [*OPERATORS, "Conv"] if option == "all" else list(OPERATORS)
        before = floats_of(model)
        with tempfile.TemporaryDirectory() as folder:
            quantized = Path(folder) / "quantized.onnx"
            quantize_dynamic(
                model,
                quantized,
                weight_type=QuantType.QInt8,
                op_types_to_quantize=operators,
                # onnx infers no type behind operators of ONNX Runtime.
                extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
            )
            model = onnx.load(quantized)
        return save_quantized(model, target, before=before, kinds=f"{', '.join(operators)} of the main graph")
