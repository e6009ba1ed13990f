"""Nodes that make outputs depend on more than the inputs of their sample: left in training mode, or drawing numbers.

A model that was exported in training mode normalizes by the other samples of a batch and drops values out at random.
Optimizers and runtimes write such nodes in the form of inference, and then give other outputs. Formats other than ONNX
find such nodes in their own way, and tell of them in the words of this module.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from bench.api.errors import InputError
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file.digest import all_graphs, all_nodes
from bench.onnxfile.file.normalized import inline_functions

MODE = "training mode"
"""Words that are in each sentence of a model that should be exported anew, and in no other."""
ADVICE = "export after model.eval()"
KERAS_ADVICE = "call the layer with training=False"
"""The same of models of Keras and TensorFlow, which have no `eval()`."""
DIFFERS = "differs between two runs with the same inputs"
"""What an output does of which it is not known which node makes it differ."""
SETTLE = f"a dropout in {MODE} draws at each run: {ADVICE} (of Keras: {KERAS_ADVICE}), and without random numbers"
NORMALIZES = "is in training mode: its outputs depend on the other samples of a batch; export after model.eval()"
DROPS = "is in training mode: it drops values at random, others at each run; export after model.eval()"
KERAS_NORMALIZES = (
    "is in training mode: its outputs depend on the other samples of a batch; call the layer with training=False"
)
KERAS_DROPS = "is in training mode: it drops values at random, others at each run; call the layer with training=False"
DRAWS = "draws random numbers at each run, so two runs differ"
BY_BATCH = "has no running statistics: its outputs depend on the other samples of a batch, in inference, too"
WRITES = "is written at each run, so outputs may depend on the runs before"
_EFFECTS = (NORMALIZES, KERAS_NORMALIZES, DROPS, KERAS_DROPS, DRAWS, BY_BATCH, WRITES)
"""What such a node does, as the end of a sentence, in the order in which it is told."""

_FLAG = 14
"""The first operator set in which an attribute tells that BatchNormalization is in training mode."""
_AS_INPUT, _NEVER = 12, 7
"""The first operator sets in which an input tells that Dropout is, and in which no Dropout is until then."""
_HALF = 0.5
"""The share of values that Dropout drops unless it is told another."""
_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unsettled:
    """A node whose outputs follow from more than the inputs of their sample.

    Attributes:
        kind: what the node is, such as `BatchNormalization`.
        name: its name, or that of its module; empty where it has none.
        effect: one of `_EFFECTS`.
    """

    kind: str
    name: str
    effect: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}" if self.name else self.kind


def sentences(nodes: Iterable[Unsettled]) -> tuple[str, ...]:
    """A sentence about each effect, which names the first node that has it and counts the others."""
    distinct_nodes = list(dict.fromkeys(nodes))
    lines = []
    for effect in _EFFECTS:
        same = [node for node in distinct_nodes if node.effect == effect]
        if same:
            others = f" (as {len(same) - 1} more)" if len(same) > 1 else ""
            lines.append(f"{same[0]}{others} {effect}")
    return tuple(lines)


def of_onnx(model: onnx.ModelProto) -> Iterator[Unsettled]:
    """Such nodes of an ONNX model, those in subgraphs and functions included; weights on disk are not read."""
    with contextlib.suppress(InputError):  # then functions are read by themselves, without what they are called with
        model = inline_functions(model)
    versions = {item.domain.removeprefix("ai.onnx"): item.version for item in model.opset_import}
    version, constants = versions.get("", 1), dict(_constants(model))
    for node in all_nodes(model):
        if node.domain not in ("", "ai.onnx"):
            continue
        name = node.name or next(iter(node.output), "")
        if node.op_type == "BatchNormalization" and _normalizes(node, version):
            yield Unsettled(kind=node.op_type, name=name, effect=NORMALIZES)
        elif node.op_type == "Dropout" and _drops(node, version, constants):
            yield Unsettled(kind=node.op_type, name=name, effect=DROPS)
        elif node.op_type in _RANDOM:
            yield Unsettled(kind=node.op_type, name=name, effect=DRAWS)


def _normalizes(node: onnx.NodeProto, version: int) -> bool:
    """Whether a BatchNormalization is in training mode; of old ones, those with further outputs are."""
    if version >= _FLAG:
        return bool(_attribute(node, "training_mode", 0))
    return any(node.output[1:])


def _drops(node: onnx.NodeProto, version: int, constants: Mapping[str, float]) -> bool:
    """Whether a Dropout is in training mode and drops anything; one whose mode is an input of the model counts not."""
    if version >= _AS_INPUT:
        ratio, mode = (constants.get(name, 1.0) if name else None for name in (*node.input, "", "")[1:3])
        is_told = len(node.input) > 2 and node.input[2] in constants
        return is_told and bool(mode) and (_HALF if ratio is None else ratio) > 0
    return version < _NEVER and not _attribute(node, "is_test", 0) and _attribute(node, "ratio", _HALF) > 0


def _attribute(node: onnx.NodeProto, name: str, default: float) -> float:
    attributes = [
        attribute for attribute in node.attribute if attribute.name == name and not attribute.ref_attr_name
    ]  # a function's own is unknown
    return float(onnx.helper.get_attribute_value(attributes[0])) if attributes else default


def _constants(model: onnx.ModelProto) -> Iterator[tuple[str, float]]:
    """Single numbers and bools that a model stores, by name."""
    for graph in all_graphs(model):
        for tensor in graph.initializer:
            yield from _single(tensor.name, tensor)
    for node in all_nodes(model):
        if node.op_type == "Constant" and node.output:
            for attribute in node.attribute:
                if attribute.ref_attr_name:  # the call of the function says it
                    continue
                if attribute.name == "value":
                    yield from _single(node.output[0], attribute.t)
                elif attribute.name in ("value_float", "value_int"):
                    yield node.output[0], float(onnx.helper.get_attribute_value(attribute))


def _single(name: str, tensor: onnx.TensorProto) -> Iterator[tuple[str, float]]:
    if list(tensor.dims) in ([], [1]) and tensor.data_location != onnx.TensorProto.EXTERNAL:
        array = np.asarray(onnx.numpy_helper.to_array(tensor))
        if array.size == 1 and array.dtype.kind in "fiub":
            yield name, float(array.reshape(-1)[0])
