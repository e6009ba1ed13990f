"""Operations of TensorFlow's graphs and Keras models that are in training mode, see `bench.onnxfile.file.training`.

What loaded objects tell is read; TensorFlow is imported only to trace a Keras model, which has imported it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bench.api import TensorSpec
from bench.onnxfile.file.training import DRAWS, KERAS_DROPS, KERAS_NORMALIZES, WRITES, Unsettled
from bench.tasks import tf_models

_RANDOM = re.compile(
    r"Random(Uniform|StandardNormal|Normal|Shuffle|Gamma|Poisson)|TruncatedNormal|Multinomial|StatefulUniform|StatefulStandardNormal"
)
WRITING = re.compile(r"Assign(Add|Sub)?VariableOp")

FIXED = frozenset(
    {
        *(
            "Const",
            "Identity",
            "Cast",
            "Reshape",
            "ExpandDims",
            "Pack",
            "ConcatV2",
            "StridedSlice",
            "FloorMod",
            "Bitcast",
        ),
        *("StatelessRandomGetKeyCounter", "StatelessRandomGetAlg", "StatelessRandomUniformFullIntV2"),
    }
)
"""Operations that make a seed of constants, so that the same numbers are drawn at each run."""


def of_function(function: Any) -> Iterator[Unsettled]:
    """Such operations of a signature and of the functions that it calls."""
    concrete = function if hasattr(function, "graph") else function.function  # of a graph without its objects
    try:
        graph = concrete.graph.as_graph_def()
    except ValueError:  # it holds more than 2 GiB, which TensorFlow does not hand out
        return
    for nodes in (graph.node, *(inner.node_def for inner in graph.library.function)):
        yield from _of_nodes({node.name: node for node in nodes})


def _of_nodes(nodes: Mapping[str, Any]) -> Iterator[Unsettled]:
    for node in nodes.values():
        if node.op.startswith("FusedBatchNorm") and "Grad" not in node.op:
            if "is_training" not in node.attr or node.attr["is_training"].b:  # which is its default
                yield Unsettled(kind=node.op, name=node.name, effect=KERAS_NORMALIZES)
        elif _RANDOM.search(node.op) and not _draws_the_same(node, nodes):
            effect = KERAS_DROPS if "dropout" in node.name.lower() else DRAWS
            yield Unsettled(kind=node.op, name=node.name, effect=effect)
        elif WRITING.fullmatch(node.op):
            effect = KERAS_NORMALIZES if re.search(r"batch_?norm", node.name.lower()) else WRITES
            yield Unsettled(kind=node.op, name=node.name, effect=effect)


def _draws_the_same(node: Any, nodes: Mapping[str, Any]) -> bool:
    """Whether a node without state, which follows from its seed, has a constant as its seed."""
    waiting, seen = [*node.input[1:]] if node.op.startswith("Stateless") else [""], set[str]()
    while waiting:
        name = waiting.pop().partition(":")[0]
        if name.startswith("^") or name in seen:
            continue
        if name not in nodes or nodes[name].op not in FIXED:
            return False
        seen.add(name)
        waiting += nodes[name].input
    return True


def of_operators(operators: Iterable[tuple[str, str]]) -> Iterator[Unsettled]:
    """Operators of another graph that draw random numbers, of pairs of a type and a name."""
    for kind, name in operators:
        if _RANDOM.search(kind.title().replace("_", "") if kind.isupper() else kind):
            yield Unsettled(kind=kind, name=name, effect=DRAWS)


def of_keras(model: Any, inputs: Sequence[TensorSpec]) -> Iterator[Unsettled]:
    """Such layers of a Keras model, as it runs where it is called with `training=False`.

    The call is traced, since what layers do follows from more than how the model was assembled: the call of an
    assembled model overrides the arguments of its layers, and the code of a subclass does not.
    """
    import tensorflow as tf

    specs = [
        tf.TensorSpec([dim if isinstance(dim, int) else None for dim in each.shape], each.dtype) for each in inputs
    ]
    call = tf_models.keras_call(model)
    try:
        traced = tf.function(lambda *tensors: call(*tensors)).get_concrete_function(*specs)
    except Exception:  # it runs eagerly alone: what differs between two runs is told by them
        return
    seeds = _written_seeds(traced.graph)
    layers = {layer.name: layer for layer in model._flatten_layers()}
    for node in of_function(traced):
        if node.name in seeds:  # the state of a layer that draws, which is told by itself
            continue
        # A scope is named for its layer, and numbered where TensorFlow has had the name before.
        names = [name for part in node.name.split("/") for name in (part, re.sub(r"_\d+$", "", part)) if name in layers]
        if not names:
            yield node
            continue
        layer = layers[names[-1]]
        kinds = [kind.__name__ for kind in type(layer).__mro__]
        effect = node.effect
        if effect == WRITES and "BatchNormalization" in kinds:
            effect = KERAS_NORMALIZES
        elif effect == DRAWS and any("Dropout" in kind for kind in kinds):
            effect = KERAS_DROPS
        yield Unsettled(kind=kinds[0], name=layer.name, effect=effect)


def _written_seeds(graph: Any) -> set[str]:
    """Names of the nodes that write the seed of the next random numbers."""
    handles = [variable.handle for variable in graph.variables if "seed_generator_state" in variable.name]
    inner = {str(name.op.name) for outer, name in graph.captures if any(outer is handle for handle in handles)}
    return {node.name for node in graph.get_operations() if node.inputs and node.inputs[0].op.name in inner}
