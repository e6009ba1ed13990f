"""A precision for each node with weights, as the option spells it: `mixed-2f10s1f`, see `engines.onnxruntime.mixing`.

`f` is float32; `d` 8-bit weights, and activations rounded by their range in each run; `s` 8-bit weights and
activations, with ranges measured on training samples; `q` weights of 4 bits in blocks of 32, `k` in blocks of 128, `t`
of 2 bits in blocks of 32, each with products in 8 bits.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.api import Info, Part, Task, Variant, mixture
from bench.api.errors import RefusedError
from bench.graphs.deferred import onnx
from bench.graphs.edits.rewire import drop_unread, shorten_names
from bench.graphs.weights.affine import BLOCK_SIZE
from bench.plugins.engines import cpu
from bench.plugins.engines.calibration import tuning_feeds
from bench.plugins.engines.onnxruntime import mixing
from bench.plugins.engines.onnxruntime.static import Feeds

BLOCKED = {
    mixing.BLOCKS: (4, BLOCK_SIZE, True),
    mixing.WIDE_BLOCKS: (4, 128, False),
    mixing.TWO_BITS: (2, BLOCK_SIZE, True),
}
"""By letter: bits of a weight, weights of a block, and whether zero lies in the middle of a block's range."""
INT8_PRODUCTS = 4
"""ONNX Runtime's accuracy level of products of activations that are rounded to 8 bits in each block."""


class Mixed(Variant):
    """Each node with weights in the precision of its letter, by ONNX Runtime's quantizers one after the other."""

    requires = ("onnxruntime", "onnx", "onnx_ir")
    options = ()
    letters = {
        mixing.FLOAT: "float32",
        mixing.DYNAMIC: "int8, activations rounded in each run",
        mixing.STATIC: "int8, activations rounded by ranges measured before",
        mixing.BLOCKS: "4-bit weights in blocks of 32",
        mixing.WIDE_BLOCKS: "4-bit weights in blocks of 128",
        mixing.TWO_BITS: "2-bit weights in blocks of 32",
    }
    lossy = True

    def parts(self, source: Path, *, task: Task) -> Sequence[Part]:
        return mixing.parts(mixing.prepared(source, task)[0])

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        model, ports = mixing.prepared(source, task)
        parts = mixing.parts(model)
        nodes = mixture.chosen(option, parts)
        rows = {part.name for part in parts if part.operator == "Gather"}
        if rows & {name for letter in BLOCKED for name in nodes.get(letter, ())}:
            # ONNX Runtime's quantizer states this operator set, and leaves the nodes as the older one has them.
            model, ports = mixing.prepared(source, task, mixing.INT4_OPSET)
            nodes = mixture.chosen(option, mixing.parts(model))
        if nodes.keys() <= {mixing.FLOAT}:
            raise RefusedError("every node stays float32")
        with tempfile.TemporaryDirectory() as folder:
            if mixing.STATIC in nodes:  # first: its calibration runs the model in float32
                model = _static(model, nodes[mixing.STATIC], ports, task, Path(folder))
            if mixing.DYNAMIC in nodes:
                model = _dynamic(model, nodes[mixing.DYNAMIC], Path(folder))
            for letter, grid in BLOCKED.items():
                if letter in nodes:
                    model = _in_blocks(model, nodes[letter], *grid)
        drop_unread(model)
        shorten_names(model, ports=ports)
        onnx.save(model, target)
        return {f"num_{letter}": len(names) for letter, names in nodes.items()}


def _static(
    model: onnx.ModelProto, names: Sequence[str], ports: Mapping[str, str], task: Task, folder: Path
) -> onnx.ModelProto:
    from onnxruntime.quantization import CalibrationMethod, QuantType, quantize_static

    inputs = {value.name: ports[value.name] for value in model.graph.input}
    feeds = [{name: sample[port] for name, port in inputs.items()} for sample in tuning_feeds(task)]
    onnx.save(model, folder / "float.onnx")
    with contextlib.redirect_stdout(io.StringIO()):  # the calibrator prints every step
        quantize_static(
            folder / "float.onnx",
            folder / "static.onnx",
            Feeds(feeds),
            op_types_to_quantize=(*mixing.OPERATORS[mixing.STATIC], *mixing.BETWEEN),
            nodes_to_quantize=[*names, *mixing.going_on(model, names)],
            per_channel=True,
            # Scales for channels make each use its whole range, and sums of two products then overflow 16 bits.
            reduce_range=cpu.sums_bytes_in_16_bits(),
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
            extra_options={"MatMulConstBOnly": True, "CalibStridedMinMax": 1},
        )
    return onnx.load(folder / "static.onnx")


def _dynamic(model: onnx.ModelProto, names: Sequence[str], folder: Path) -> onnx.ModelProto:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        model,
        folder / "dynamic.onnx",
        weight_type=QuantType.QInt8,
        op_types_to_quantize=mixing.OPERATORS[mixing.DYNAMIC],
        nodes_to_quantize=[*names],
        # onnx infers no type behind operators of ONNX Runtime.
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )
    return onnx.load(folder / "dynamic.onnx")


def _in_blocks(
    model: onnx.ModelProto, names: Sequence[str], bits: int, block_size: int, is_symmetric: bool
) -> onnx.ModelProto:
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

    logging.getLogger("onnxruntime.quantization.matmul_nbits_quantizer").setLevel(logging.ERROR)
    quantizer = MatMulNBitsQuantizer(
        model,
        nodes_to_exclude=[node.name for node in model.graph.node if node.name not in names],
        algo_config=DefaultWeightOnlyQuantConfig(
            bits=bits,
            block_size=block_size,
            is_symmetric=is_symmetric,
            accuracy_level=INT8_PRODUCTS,
            op_types_to_quantize=tuple({node.op_type for node in model.graph.node if node.name in names}),
            quant_axes=(("MatMul", 0), ("Gather", 1)),
        ),
    )
    quantizer.process()
    return quantizer.model.model
