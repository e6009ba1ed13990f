"""Files of the other groups in other forms: int8, float16, 4 bits, fused operators, newest opsets, OpenVINO IR."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from corpus_models import LIST, Listed

NEWEST = (22, 24, 25, 26)
"""Opsets that no exporter of the other groups writes."""


def make(home: Path) -> Listed:
    import numpy as np
    import onnx
    import openvino
    from onnxruntime import quantization
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    from onnxruntime.quantization.shape_inference import quant_pre_process
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.float16 import convert_float_to_float16

    others = home.parent / "transformers"
    made = json.loads((others / LIST).read_text())
    listed: Listed = {}

    def add(name: str, source: str, form: str) -> Path:
        domain, feeds = made[source]
        listed[name] = (f"{domain}, {form}", feeds)
        return home / name

    for name in ("bert.onnx", "gpt2.onnx", "vit.onnx"):
        quantization.quantize_dynamic(others / name, add(f"int8_{name}", name, "int8"))
        half = convert_float_to_float16(onnx.load(others / name), keep_io_types=name != "vit.onnx")
        onnx.save(half, add(f"fp16_{name}", name, "float16"))
    listed["fp16_vit.onnx"] = (listed["fp16_vit.onnx"][0], {"pixel_values": "float16 1x3x64x64"})

    class Samples(quantization.CalibrationDataReader):
        """Random images."""

        def __init__(self) -> None:
            generator = np.random.default_rng(0)
            images = generator.standard_normal((8, 1, 3, 64, 64)).astype(np.float32)
            self.samples = iter([{"pixel_values": image} for image in images])

        def get_next(self) -> Any:
            return next(self.samples, None)

    settled = home / "settled"
    forms = {"convnext": quantization.QuantFormat.QDQ, "resnet": quantization.QuantFormat.QOperator}
    for name, form in forms.items():
        quant_pre_process(others / f"{name}.onnx", settled)
        target = add(f"{form.name.lower()}_{name}.onnx", f"{name}.onnx", f"int8 as {form.name}")
        quantization.quantize_static(settled, target, Samples(), quant_format=form)
    settled.unlink()
    blocks = MatMulNBitsQuantizer(onnx.load(others / "bert_masked.onnx"), bits=4, block_size=32)
    blocks.process()
    blocks.model.save_model_to_file(str(add("int4_bert_masked.onnx", "bert_masked.onnx", "4 bits")))
    fused = optimizer.optimize_model(str(others / "bert.onnx"), "bert", num_heads=4, hidden_size=128)
    fused.save_model_to_file(str(add("fused_bert.onnx", "bert.onnx", "fused operators")))
    for opset in NEWEST:
        newer = onnx.version_converter.convert_version(onnx.load(others / "segformer.onnx"), opset)
        onnx.save(newer, add(f"segformer_opset{opset}.onnx", "segformer.onnx", f"opset {opset}"))
    openvino.save_model(
        openvino.convert_model(others / "gpt2.onnx"), add("gpt2.xml", "gpt2.onnx", "OpenVINO IR")
    )  # fmt: skip
    return listed
