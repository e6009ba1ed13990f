"""ONNX Runtime's static quantization: 8-bit weights and activations, with ranges measured on training samples."""

from __future__ import annotations

import contextlib
import io
import tempfile
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Info, Task, Variant
from bench.graphs.deferred import onnx
from bench.graphs.edits.opset import raise_opset
from bench.graphs.edits.rewire import load_settled
from bench.graphs.file.reads import node_reads
from bench.graphs.weights.quantizable import find_weights
from bench.plugins.engines import cpu
from bench.plugins.engines.calibration import calibration_feeds
from bench.plugins.engines.onnxruntime.quantized import save_quantized

if TYPE_CHECKING:
    from onnxruntime.quantization.calibrate import TensorsData

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "minmax": ("MinMax", {}),
    "entropy": ("Entropy", {}),
    # The default range is symmetric about 0, which leaves half of the codes unused after a ReLU.
    "percentile": ("Percentile", {"percentile": 99.999, "symmetric": False}),
}
"""ONNX Runtime's name and settings of each calibration method, by the name in options."""
CHANNEL = "channel"
OPSET_CHANNELS = 13
"""The operator set from which on DequantizeLinear knows channels."""
OPERATORS = ("Conv", "ConvTranspose", "MatMul", "Gemm", "Gather", "Relu", "Clip", "MaxPool")
"""Operators that get smaller or faster, and operators between them; if every operator that can be is quantized, ALBERT
loses a fifth of its accuracy."""


class Int8Static(Variant):
    """QDQ with unsigned activations and signed weights, one scale for each channel of a weight, or one for all of it.

    The last product before each output stays in float32, since no later operator evens out its rounding. In ESPCN it
    has a twentieth of the multiplications, and would cause half of the loss.
    """

    requires = ("onnxruntime", "onnx")
    options = (*(f"{method}-{CHANNEL}" for method in METHODS), *METHODS)
    lossy = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        from onnxruntime.quantization import QuantType
        from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
        from onnxruntime.quantization.shape_inference import quant_pre_process

        method, _, per = option.partition("-")
        # Scales for channels make each use its whole range, and sums of two products then overflow 16 bits.
        reduce_range = per == CHANNEL and cpu.sums_bytes_in_16_bits()
        model = raise_opset(load_settled(source), OPSET_CHANNELS, task)
        with tempfile.TemporaryDirectory() as folder:
            settled, prepared = Path(folder) / "settled.onnx", Path(folder) / "prepared.onnx"
            onnx.save(model, settled)
            quant_pre_process(settled, prepared, skip_symbolic_shape=True)
            num_samples, ranges = measure_ranges(prepared, task, method)
            model = onnx.load(prepared)
            for node in model.graph.node:
                node.name = node.output[0]  # nodes to leave out are given by name, and some have no name
            num_weights = len(find_weights(model))
            quantizer = QDQQuantizer(
                model=model,
                per_channel=per == CHANNEL,
                reduce_range=reduce_range,
                weight_qType=QuantType.QInt8,
                activation_qType=QuantType.QUInt8,
                tensors_range=ranges,
                nodes_to_quantize=[],
                nodes_to_exclude=last_products(model),
                op_types_to_quantize=list(OPERATORS),
                extra_options={"MatMulConstBOnly": True},
            )
            quantizer.quantize_model()
        quantizer.model.topological_sort()
        model = quantizer.model.model
        kinds = f"{', '.join(OPERATORS)}, but for the last product's"
        counts = save_quantized(model, target, num_weights=num_weights, kinds=kinds)
        return {**counts, "num_samples": num_samples, "reduce_range": reduce_range}


def last_products(model: onnx.ModelProto) -> list[str]:
    """Names of the nodes that make each output's last product: the last node with weights before the output."""
    weights = {weight.name for weight in find_weights(model)}
    makers = {name: index for index, node in enumerate(model.graph.node) for name in node.output}
    found = set()
    for value in model.graph.output:
        needed = {value.name}
        for index in range(makers.get(value.name, -1), -1, -1):
            node = model.graph.node[index]
            if needed.isdisjoint(node.output):
                continue
            if not weights.isdisjoint(node.input):
                found.add(node.output[0])
                break
            needed |= set(node_reads(node))
    return sorted(found)


def measure_ranges(path: Path, task: Task, method: str) -> tuple[int, TensorsData]:
    """Run training samples, one at a time, and measure the range of every value that is to be quantized.

    Returns:
        The number of samples, and the ranges in the form that ONNX Runtime's quantizer takes.
    """
    from onnxruntime.quantization import CalibrationMethod
    from onnxruntime.quantization.calibrate import create_calibrator

    name, settings = METHODS[method]
    calibrator = create_calibrator(
        path,
        OPERATORS,
        augmented_model_path=str(path.with_name("augmented.onnx")),
        calibrate_method=CalibrationMethod[name],
        extra_options=settings,
    )
    samples = calibration_feeds(task)
    with contextlib.redirect_stdout(io.StringIO()):  # the calibrator prints every step
        for feeds in samples:
            # All samples at once would hold every activation of each in memory.
            calibrator.collect_data(types.SimpleNamespace(get_next=iter([feeds, None]).__next__))
        return len(samples), calibrator.compute_data()
