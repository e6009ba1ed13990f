"""The limit of deployments that claim to lose nothing: their outputs differ from the reference's by rounding alone.

A cell claims it where none of its steps is lossy and it ran in float32, or in a wider type, as the reference did. Its
outputs are sound with a signal-to-noise ratio of `SOUND_DB`. Below that, the model itself tells how far rounding goes:
the reference runs again with its inputs and weights changed by a few roundings. Only a ratio that this does not explain
is broken, whatever the task's metric says. So are samples that have another shape than the reference's, where these
runs change the shape of no sample, or of far fewer. Lossy cells have the limit of the task alone.
"""

from __future__ import annotations

import contextlib
import copy
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bench.api import Arrays, Task, ragged
from bench.api.cell import Cell
from bench.api.errors import BenchError
from bench.api.fidelity import noise_share
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file.digest import all_graphs, all_nodes
from bench.onnxfile.file.dtypes import bits, is_floating, type_name
from bench.pipeline import differences, quality
from bench.plugins import catalog
from bench.plugins.generating import LOGPROBS
from bench.records.lines import Quality

_WIDTHS = {"float32": 32, "float64": 64}
"""Precisions in which a cell may claim to lose nothing, and their bits."""
SOUND_DB = 60.0
"""A ratio that passes at once. No sound float32 row of the published results is below 66 dB."""
_GENERATED_DB = 40.0
"""The same of generated text: engines of decoders take activation functions from tables of float16 numbers."""
CHANGE = 2.0**-17
"""Largest share by which a float changes: 64 roundings of float32, as many as sums of thousands of products make."""
_NUM_RUNS, _NUM_RUNS_DISCRETE, _NUM_RUNS_GENERATED = 4, 8, 2
"""Runs of the reference with other changes: more where an output is discrete, or its shape may follow from its values,
since few of these are near ties, and fewer of generated text, whose logits are many and whose runs take long."""
_SAFETY = 4.0
"""Of a power, or a share of values: so much more than the most that was seen is still explained."""
_ROUNDING = frozenset(
    {
        *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"),
        *("QLinearConv", "QLinearMatMul", "MatMulNBits", "DynamicQuantizeLSTM", "MatMulBnb4"),
    }
)
"""Operators of ONNX by which a model computes in less than float32 by itself."""

WORST = 1e12
"""The largest share that is told, since JSON has no infinity: of an output that was zero, or that has a NaN."""

Shares = Mapping[str, float]
"""By the name of the output, the power of its error over its own, or the share of its discrete values that differ.

These are of the samples that have the reference's shape. By `ragged.SHAPES` and the name of the output, the share of
samples that have another, where there are some.
"""


def claims_nothing_lost(cell: Cell) -> bool:
    """Whether no step of a cell, and no option of its runtime, may change the outputs by more than rounding does."""
    is_lossy = [catalog.exporter(cell.exporter).lossy, *(catalog.variant(name).variant.lossy for name in cell.chain)]
    return not any(is_lossy) and catalog.runtime(cell.runtime).approximates().isdisjoint(cell.provider.options)


def is_lossy(cell: Cell, precision: str | None) -> bool:
    """Whether the outputs of a cell were not held to what rounding explains: it claims no such thing, or is not known.

    Args:
        cell: the cell, of which a plugin may not be here.
        precision: the precision in which it ran.
    """
    with contextlib.suppress(BenchError):
        return precision not in _WIDTHS or not claims_nothing_lost(cell)
    return True


def shares(outputs: Arrays, expected: Arrays) -> dict[str, float]:
    """See `Shares`; at most `WORST`, and no errors of outputs that cannot be compared element by element."""
    ratios: dict[str, float] = {}
    for name, right in expected.items():
        if name not in outputs:
            continue
        if (pair := differences.comparable(outputs[name], right)) is not None:
            ratios[name] = _share(*pair)
        if unlike := differences.unlike_share(outputs[name], right):
            ratios[ragged.SHAPES + name] = unlike
    return ratios


def _share(output: np.ndarray, expected: np.ndarray) -> float:
    """The share of one output."""
    with np.errstate(invalid="ignore", over="ignore"):
        share = noise_share(output, expected)
    return WORST if math.isnan(share) else min(share, WORST)


def judged(
    task: Task,
    judgement: Quality,
    differing: Shares,
    reference: Quality,
    explained: Callable[[], Shares | None],
) -> Quality:
    """The quality of a cell that claims to lose nothing: broken where rounding does not explain what differs.

    Args:
        task: the cell's task.
        judgement: the quality by the task's own limits, with the precision that ran.
        differing: shares of the cell's outputs against the reference's.
        reference: the quality of the reference.
        explained: measures the largest shares that rounding makes; None where the model itself computes in less than
            float32. Called only where an output is beyond what passes at once.
    """
    width, least = (_WIDTHS.get(each.precision or "", 0) for each in (judgement, reference))
    if judgement.fidelity not in (quality.CLOSE, quality.DRIFTED) or not 0 < least <= width:
        return judgement
    if task.request is not None:  # the tokens that an engine chooses have a judgement of their own
        differing = {name: share for name, share in differing.items() if name == LOGPROBS}
    most = 10 ** (-(SOUND_DB if task.request is None else _GENERATED_DB) / 10)
    floats = {spec.name for spec in task.outputs if "float" in spec.dtype}
    beyond = {
        name: share
        for name, share in differing.items()
        # A tolerance is that of numbers: classes and indices that are close are not alike.
        if share > _least(name, most) and (judgement.fidelity == quality.DRIFTED or name not in floats)
    }
    if not beyond or (by_rounding := explained()) is None:
        return judgement
    limits = {name: max(_least(name, most), _SAFETY * by_rounding.get(name, 0.0)) for name in beyond}
    name = max(beyond, key=lambda name: beyond[name] / limits[name] if limits[name] else math.inf)
    if beyond[name] <= limits[name]:
        return judgement
    by = _told_shapes if name.startswith(ragged.SHAPES) else _told_float if name in floats else _told_discrete
    reason = (
        f"{judgement.precision} throughout, but {by(name, beyond[name], limits[name])}; no step of this cell claims to "
        "lose anything"
    )
    return replace(judgement, fidelity=quality.BROKEN, reason=reason)


def _least(name: str, most: float) -> float:
    """The share that passes at once: `most` of an output's power or values, and none of its shapes."""
    return 0.0 if name.startswith(ragged.SHAPES) else most


def _told_shapes(name: str, share: float, limit: float) -> str:
    explained = f"rounding explains {100 * limit:.2g} % at most" if limit else "rounding changes the shape of none"
    return (
        f"output {name.removeprefix(ragged.SHAPES)} has another shape than the reference's in {100 * share:.3g} % of "
        f"the samples, and {explained}"
    )


def _told_float(name: str, share: float, limit: float) -> str:
    own, least = (-10 * math.log10(each) for each in (share, limit))
    return (
        f"the signal-to-noise ratio of output {name} is {own:.1f} dB, and rounding explains no less than {least:.1f} dB"
    )


def _told_discrete(name: str, share: float, limit: float) -> str:
    return (
        f"{100 * share:.3g} % of the values of output {name} differ, and rounding explains {100 * limit:.2g} % at most"
    )


def changed_inputs(arrays: Arrays, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs by name whose floats are changed by a few roundings each."""
    return {name: changed(array, generator) if array.dtype.kind == "f" else array for name, array in arrays.items()}


def changed(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """An array of floats, each changed by at most the share `CHANGE`; the largest that there are stay finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = (array * (1 + CHANGE * (2 * generator.random(array.shape) - 1))).astype(array.dtype)
    return np.where(np.isfinite(values), values, array)


def num_runs(task: Task) -> int:
    """Runs that tell what rounding explains of a task's outputs."""
    if task.request is not None:
        return _NUM_RUNS_GENERATED
    shapes = [spec.shape[int(task.batched) :] for spec in task.outputs]
    may_differ = task.judges_other_shapes and any(isinstance(dim, str) for shape in shapes for dim in shape)
    is_discrete = may_differ or any("float" not in spec.dtype for spec in task.outputs)
    return _NUM_RUNS_DISCRETE if is_discrete else _NUM_RUNS


def largest(runs: Iterable[Shares]) -> dict[str, float]:
    """The largest share of each output."""
    merged: dict[str, float] = {}
    for each in runs:
        merged |= {name: max(share, merged.get(name, 0.0)) for name, share in each.items()}
    return merged


def with_changed_weights(task: Task, generator: np.random.Generator) -> Task:
    """A task that builds its models with changed weights, see `changed`, and refuses those below float32.

    `build` and `build_step` then raise a `ReducedError` for a model that stores numbers in less than float32.
    """
    clone = copy.copy(task)
    for name in ("build", "build_step"):
        build = getattr(task, name)
        vars(clone)[name] = lambda *arguments, _build=build: _changed_model(_build(*arguments), generator)
    return clone


def _changed_model(model: Any, generator: np.random.Generator) -> Any:
    """A model of PyTorch or TensorFlow, its matrices and filters changed in place; another model as it is."""
    if callable(getattr(model, "parameters", None)):
        import torch

        if any(map(_is_quantized, model.modules())):
            raise ReducedError
        stored = (*model.parameters(), *model.buffers())
        if any(tensor.is_quantized or (tensor.is_floating_point() and tensor.element_size() < 4) for tensor in stored):
            raise ReducedError
        with torch.no_grad():
            for tensor in model.parameters():
                if tensor.is_floating_point() and tensor.ndim > 1:
                    tensor.copy_(torch.from_numpy(changed(tensor.numpy(), generator)))
        return model
    for weight in getattr(model, "trainable_weights", ()):
        kind = str(getattr(weight.dtype, "name", weight.dtype))
        if kind in ("float16", "bfloat16"):
            raise ReducedError
        if kind in _WIDTHS and len(weight.shape) > 1 and hasattr(weight, "assign"):  # a constant of a graph has none
            weight.assign(changed(np.asarray(weight.numpy()), generator))
    return model


def _is_quantized(module: Any) -> bool:
    """Whether a module of PyTorch keeps packed weights, which are neither parameters nor buffers, or computes so."""
    program = getattr(module, "inlined_graph", None)  # of TorchScript, whose modules have lost their classes
    return bool(re.search(r"\b(quantized::|aten::quantized_)", str(program or ""))) or any(
        kind.__module__.startswith("torch.ao.nn.") and "quantized" in kind.__module__ for kind in type(module).__mro__
    )


class ReducedError(Exception):
    """A model computes in less than float32 by itself, so float32 cannot be held against it."""


def write_changed(source: Path, target: Path, generator: np.random.Generator) -> None:
    """Write a copy of an ONNX file with changed matrices and filters; vectors may be sizes, which stay.

    Raises:
        ReducedError: the model rounds to integers, or to floats below float32.
    """
    model = onnx.load(source)
    if any(_is_reduced(node) for node in all_nodes(model)):
        raise ReducedError
    for tensor in (tensor for graph in all_graphs(model) for tensor in graph.initializer):
        kind = type_name(tensor.data_type)
        if kind in _WIDTHS and len(tensor.dims) > 1:
            array = changed(onnx.numpy_helper.to_array(tensor), generator)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        elif is_floating(tensor.data_type) and bits(tensor.data_type) < _WIDTHS["float32"]:
            raise ReducedError
    target.write_bytes(model.SerializeToString())


def _is_reduced(node: onnx.NodeProto) -> bool:
    if node.op_type in _ROUNDING:
        return True
    to = [attribute.i for attribute in node.attribute if attribute.name == "to"] if node.op_type == "Cast" else []
    return any(is_floating(kind) and bits(kind) < _WIDTHS["float32"] for kind in to)
