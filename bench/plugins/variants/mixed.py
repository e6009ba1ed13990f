"""A precision for each node with weights, as the option spells it: `mixed-2f10s1f`, see `engines.onnxruntime.mixing`.

`f` is float32; `d` 8-bit weights, and activations rounded by their range in each run; `s` 8-bit weights and
activations, with ranges measured on training samples; `q` weights of 4 bits in blocks of 32, `k` in blocks of 128, `v`
in blocks of 256 around zero, `t` of 2 bits in blocks of 128, each with products in 8 bits. Weights in blocks are
limited to the range that serves them best before they are rounded, and those of products are rounded such that they
make up for the errors of each other. With any of them, scales of blocks are stored in 8 bits, and vectors, such as
biases, in float16.
"""

from __future__ import annotations

import collections
import contextlib
import io
import logging
import math
import tempfile
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from bench.api import Info, Part, Task, Variant, mixture
from bench.api.errors import RefusedError
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.edits.rewire import drop_unread, shorten_names
from bench.onnxfile.file.digest import all_nodes
from bench.onnxfile.file.replace import replace_all
from bench.onnxfile.weights.affine import BLOCK_SIZE
from bench.onnxfile.weights.clipping import limited
from bench.onnxfile.weights.feedback import fed_back
from bench.plugins.engines import cpu
from bench.plugins.engines.calibration import tuning_feeds
from bench.plugins.engines.onnxruntime import mixing
from bench.plugins.engines.onnxruntime.grams import grams
from bench.plugins.engines.onnxruntime.static import Feeds, in_one_scale

_BLOCKED = {
    mixing.BLOCKS: (4, BLOCK_SIZE, True),
    mixing.WIDE_BLOCKS: (4, 128, False),
    mixing.WIDEST_BLOCKS: (4, 256, True),
    mixing.TWO_BITS: (2, 128, True),
}
"""By letter: bits of a weight, weights of a block, and whether zero lies in the middle of a block's range."""
AXES = {"MatMul": 0, "Gather": 1}
"""By operator: the axis of its weights along which blocks lie."""
_ADDING = frozenset({"Add", "BiasGelu", "Conv", "FastGelu", "LayerNormalization", "SkipLayerNormalization"})
"""Operators whose vectors are biases, or belong to a normalization."""
_LEAST_BLOCK = 16
"""Weights that share a scale, at least; block sizes are powers of two (ONNX Runtime 1.31.1)."""
MANY = 64
"""Numbers that are worth a node of their own."""
_MOST_RANGE = 16
"""The largest scale of a tensor over its least, at most, where they are stored in 8 bits: 127 codes then round the
least by 6.3 % at most, and the largest by 0.4 %, which is little beside the rounding of the weights."""
_INT8_PRODUCTS = 4
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
        mixing.WIDEST_BLOCKS: "4-bit weights in blocks of 256, around zero",
        mixing.TWO_BITS: "2-bit weights in blocks of 128",
    }
    lossy = True

    def parts(self, source: Path, *, task: Task) -> Sequence[Part]:
        return mixing.parts(mixing.prepared(source, task)[0])

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        model, ports = mixing.prepared(source, task)
        parts = mixing.parts(model)
        nodes = mixture.chosen(option, parts)
        rows = {part.name for part in parts if part.operator == "Gather"}
        if rows & {name for letter in _BLOCKED for name in nodes.get(letter, ())}:
            # ONNX Runtime's quantizer states this operator set, and leaves the nodes as the older one has them.
            model, ports = mixing.prepared(source, task, mixing.INT4_OPSET)
            parts = mixing.parts(model)
            nodes = mixture.chosen(option, parts)
        if nodes.keys() <= {mixing.FLOAT}:
            raise RefusedError("every node stays float32")
        blocked = {name for letter in _BLOCKED for name in nodes.get(letter, ())}
        squares = grams(model, blocked, ports, task)
        vectors = _added(model) - {name for part in parts for name in part.weights.split()}
        with tempfile.TemporaryDirectory() as folder:
            if mixing.STATIC in nodes:  # first: its calibration runs the model in float32
                model = _static(model, nodes[mixing.STATIC], ports, task, Path(folder))
            if mixing.DYNAMIC in nodes:
                model = _dynamic(model, nodes[mixing.DYNAMIC], Path(folder))
            for letter, (bits, block_size, is_symmetric) in _BLOCKED.items():
                for size, names in _by_block_size(model, nodes.get(letter, ()), block_size).items():
                    _prepare(model, names, squares, bits, size, is_symmetric)
                    model = _in_blocks(model, names, bits, size, is_symmetric)
            if _BLOCKED.keys() & nodes.keys():
                _store_smaller(model, vectors)
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
            extra_options={"MatMulConstBOnly": True, "CalibStridedMinMax": 1, **in_one_scale(model, QuantType.QInt8)},
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


def _by_block_size(model: onnx.ModelProto, names: Sequence[str], most: int) -> dict[int, list[str]]:
    """Nodes by the size of their blocks, at most `most`: codes of a block beyond the weights would be stored, too."""
    shapes = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    chosen, nodes_by_size = set(names), collections.defaultdict(list)
    for node in model.graph.node:
        if node.name in chosen:
            read = [shapes[name] for name in node.input if name in shapes]
            length = max((dims[AXES[node.op_type]] for dims in read if len(dims) == 2), default=most)
            nodes_by_size[min(most, max(_LEAST_BLOCK, 1 << (length - 1).bit_length()))].append(node.name)
    return dict(nodes_by_size)


def _prepare(
    model: onnx.ModelProto,
    names: Sequence[str],
    squares: Mapping[str, np.ndarray],
    bits: int,
    block_size: int,
    is_symmetric: bool,
) -> None:
    """Give the weights of some nodes the grids that serve them best, where no other node reads them.

    Args:
        squares: how the inputs of products go together, see `grams`, by the name of their weights.
    """
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    chosen = set(names)
    others = {name for node in all_nodes(model) if node.name not in chosen for name in node.input}
    axes = {name: AXES[node.op_type] for node in model.graph.node if node.name in chosen for name in node.input}
    for name in axes.keys() & tensors.keys() - others:
        array = onnx.numpy_helper.to_array(tensors[name])
        if array.ndim == 2 and array.dtype == np.float32:
            grid: Any = {"bits": bits, "block_size": block_size, "is_symmetric": is_symmetric}
            if name in squares:
                within = fed_back(array, squares[name], **grid)
            else:
                within = limited(array, axis=axes[name], **grid)
            tensors[name].CopyFrom(onnx.numpy_helper.from_array(within, name))


def _added(model: onnx.ModelProto) -> set[str]:
    """Names of the vectors that are biases or belong to a normalization, and nothing else reads.

    A small number of such a vector may be rounded away beside a large one, where a divisor, or a position, may not.
    """
    vectors = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) == 1}
    others = {name for node in all_nodes(model) if node.op_type not in _ADDING for name in node.input}
    return vectors - others - {value.name for value in (*model.graph.input, *model.graph.output)}


def _store_smaller(model: onnx.ModelProto, vectors: Set[str]) -> None:
    """Store scales of blocks in 8 bits, and vectors in float16, where their range allows it.

    ONNX Runtime computes the float32 numbers that the operators read once, when it opens the model.

    Args:
        vectors: names of the vectors, which no quantizer made.

    Source: Dettmers et al. 2023, "QLoRA" (double quantization).
    """
    graph = model.graph
    scales = {node.input[2] for node in graph.node if node.op_type in ("MatMulNBits", "GatherBlockQuantized")}
    nodes, steps = [], []
    for tensor in graph.initializer:
        name = tensor.name
        is_large = tensor.data_type == onnx.TensorProto.FLOAT and math.prod(tensor.dims) >= MANY
        if not is_large or name not in scales | vectors:
            continue
        numbers = onnx.numpy_helper.to_array(tensor)
        magnitudes = np.abs(numbers[numbers != 0])
        largest = magnitudes.max(initial=0)
        if name in scales and largest <= _MOST_RANGE * magnitudes.min(initial=np.inf):
            step = np.float32(largest / np.iinfo(np.int8).max)
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.rint(numbers / step).astype(np.int8), f"{name}_codes"))
            steps.append(onnx.numpy_helper.from_array(np.array(step), f"{name}_step"))
            nodes.append(_cast(tensor.name, f"{name}_float"))
            nodes.append(onnx.helper.make_node("Mul", [f"{name}_float", f"{name}_step"], [name], name=name))
            continue
        # Each scale counts by itself; in a vector, rounding is small beside the largest number.
        least = magnitudes.min(initial=np.inf) if name in scales else largest
        if least >= np.finfo(np.float16).tiny and largest <= np.finfo(np.float16).max:
            tensor.CopyFrom(onnx.numpy_helper.from_array(numbers.astype(np.float16), f"{name}_half"))
            nodes.append(_cast(tensor.name, name))
    graph.initializer.extend(steps)
    replace_all(graph.node, [*nodes, *graph.node])


def _cast(source: str, target: str) -> onnx.NodeProto:
    """A node that gives a tensor in float32."""
    return onnx.helper.make_node("Cast", [source], [target], name=target, to=onnx.TensorProto.FLOAT)


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
            accuracy_level=_INT8_PRODUCTS,
            op_types_to_quantize=tuple({node.op_type for node in model.graph.node if node.name in names}),
            quant_axes=tuple(AXES.items()),
        ),
    )
    quantizer.process()
    return quantizer.model.model
