"""ONNX Runtime's own kernels for products with weights of 4 bits in blocks of 32 (MatMulNBits)."""

import logging
from pathlib import Path

from bench.api import Info, Task, Variant
from bench.onnxfile.edits.rewire import drop_unread, load_settled, matmul_from_gemm
from bench.onnxfile.weights.affine import BLOCK_SIZE
from bench.plugins.engines.onnxruntime.quantized import floats_of, save_quantized

_ACCURACY_LEVELS = {"float": 1, "int8": 4}
"""ONNX Runtime's level by option: products in float32, or of activations rounded to 8 bits in each block."""


class MatMulNBits(Variant):
    """Every product with a stored matrix, tied ones included; other weights stay as they are."""

    portable = True
    requires = ("onnxruntime", "onnx", "onnx_ir")
    options = tuple(_ACCURACY_LEVELS)
    lossy = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        logging.getLogger("onnxruntime.quantization.matmul_nbits_quantizer").setLevel(logging.ERROR)
        model = load_settled(source)
        matmul_from_gemm(model)
        before = floats_of(model)
        quantizer = MatMulNBitsQuantizer(
            model, bits=4, block_size=BLOCK_SIZE, is_symmetric=True, accuracy_level=_ACCURACY_LEVELS[option]
        )
        quantizer.process()
        model = quantizer.model.model
        drop_unread(model)  # the quantizer writes a tied weight once for each reader, always under the same name
        return save_quantized(model, target, before=before, kinds="a matrix product")
