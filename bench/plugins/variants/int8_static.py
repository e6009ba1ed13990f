"""ONNX Runtime's static quantization: 8-bit weights and activations, with ranges measured on training samples."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

from bench.api import Info, Task, Variant
from bench.onnxfile.deferred import onnx
from bench.onnxfile.edits.opset import raise_opset
from bench.onnxfile.edits.rewire import flatten_biases, load_settled, separate_names
from bench.onnxfile.file.reads import node_reads
from bench.onnxfile.weights.quantizable import find_weights
from bench.plugins.engines import cpu
from bench.plugins.engines.calibration import calibration_feeds
from bench.plugins.engines.onnxruntime.quantized import floats_of, save_quantized
from bench.plugins.engines.onnxruntime.static import Feeds, in_one_scale, read_inside

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "minmax": ("MinMax", {}),
    "entropy": ("Entropy", {}),
    # The default range is symmetric about 0, which leaves half of the codes unused after a ReLU.
    "percentile": ("Percentile", {"CalibPercentile": 99.999, "CalibTensorRangeSymmetric": False}),
}
"""ONNX Runtime's name and settings of each calibration method, by the name in options."""
_CHANNEL = "channel"
_OPSET_CHANNELS = 13
"""The operator set from which on DequantizeLinear knows channels."""
OPERATORS = ("Conv", "ConvTranspose", "MatMul", "Gemm", "Gather", "Relu", "Clip", "MaxPool")
"""Operators that get smaller or faster, and operators between them; if every operator that can be is quantized, ALBERT
loses a fifth of its accuracy."""


class Int8Static(Variant):
    """QDQ with unsigned activations and signed weights, one scale for each channel of a weight, or one for all of it.

    A transposed convolution in groups with a bias has one scale in any case, see `in_one_scale`.

    The last product before each output stays in float32, since no later operator evens out its rounding. In ESPCN it
    has a twentieth of the multiplications, and would cause half of the loss.
    """

    requires = ("onnxruntime", "onnx", "onnx_ir")
    options = (*(f"{method}-{_CHANNEL}" for method in METHODS), *METHODS)
    lossy = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        from onnxruntime.quantization import CalibrationMethod, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

        method, _, per = option.partition("-")
        name, settings = METHODS[method]
        # Scales for channels make each use its whole range, and sums of two products then overflow 16 bits.
        reduce_range = per == _CHANNEL and cpu.sums_bytes_in_16_bits()
        model = raise_opset(load_settled(source), _OPSET_CHANNELS, task)
        ports = separate_names(model)  # the quantizer does not look whether x_scale or x0 is free
        inputs = {value.name: ports[value.name] for value in model.graph.input}
        samples = [{name: feeds[port] for name, port in inputs.items()} for feeds in calibration_feeds(task)]
        with tempfile.TemporaryDirectory() as folder:
            settled, prepared = Path(folder) / "settled.onnx", Path(folder) / "prepared.onnx"
            onnx.save(model, settled)
            quant_pre_process(settled, prepared, skip_symbolic_shape=True)
            model = onnx.load(prepared)
            flatten_biases(model)
            for node in model.graph.node:
                node.name = node.output[0]  # nodes to leave out are given by name, and some have no name
            onnx.save(model, prepared)
            before = floats_of(model)
            some = in_one_scale(model, QuantType.QInt8) if per == _CHANNEL else {}
            with contextlib.redirect_stdout(io.StringIO()):  # the calibrator prints every step
                quantize_static(
                    prepared,
                    quantized := Path(folder) / "quantized.onnx",
                    Feeds(samples),
                    op_types_to_quantize=OPERATORS,
                    per_channel=per == _CHANNEL,
                    reduce_range=reduce_range,
                    activation_type=QuantType.QUInt8,
                    weight_type=QuantType.QInt8,
                    nodes_to_exclude=[*_last_products(model), *read_inside(model)],
                    calibrate_method=CalibrationMethod[name],
                    extra_options={"MatMulConstBOnly": True, "CalibStridedMinMax": 1, **settings, **some},
                )
            model = onnx.load(quantized)
        kinds = f"{', '.join(OPERATORS)}, of the main graph, but for the last product's"
        counts = save_quantized(model, target, before=before, kinds=kinds, ports=ports)
        return {**counts, "num_samples": len(samples), "reduce_range": reduce_range}


def _last_products(model: onnx.ModelProto) -> list[str]:
    """Names of the nodes that make each output's last product: the last node with weights before the output."""
    weights = {weight.name for weight in find_weights(model)}
    makers = {name: index for index, node in enumerate(model.graph.node) for name in node.output}
    products = set()
    for value in model.graph.output:
        needed = {value.name}
        for index in range(makers.get(value.name, -1), -1, -1):
            node = model.graph.node[index]
            if needed.isdisjoint(node.output):
                continue
            if not weights.isdisjoint(node.input):
                products.add(node.output[0])
                break
            needed |= set(node_reads(node))
    return sorted(products)
