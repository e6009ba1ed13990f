"""Operations of TensorFlow's graphs and Keras models that are in training mode, see `bench.graphs.file.training`.

TensorFlow is not imported here: what its loaded objects tell is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from bench.graphs.file.training import DRAWS, DROPS, NORMALIZES, WRITES, Unsettled

RANDOM = re.compile(
    r"Random(Uniform|StandardNormal|Normal|Shuffle|Gamma|Poisson)|TruncatedNormal|Multinomial|StatefulUniform|StatefulStandardNormal"
)
WRITING = re.compile(r"Assign(Add|Sub)?VariableOp")


def of_function(function: Any) -> Iterator[Unsettled]:
    """Such operations of a signature and of the functions that it calls."""
    concrete = function if hasattr(function, "graph") else function.function  # of a graph without its objects
    try:
        graph = concrete.graph.as_graph_def()
    except ValueError:  # it holds more than 2 GiB, which TensorFlow does not hand out
        return
    nodes = [*graph.node, *(node for inner in graph.library.function for node in inner.node_def)]
    for node in nodes:
        if node.op.startswith("FusedBatchNorm") and "Grad" not in node.op:
            if "is_training" not in node.attr or node.attr["is_training"].b:  # which is its default
                yield Unsettled(kind=node.op, name=node.name, effect=NORMALIZES)
        elif RANDOM.search(node.op):
            effect = DROPS if "dropout" in node.name.lower() else DRAWS
            yield Unsettled(kind=node.op, name=node.name, effect=effect)
        elif WRITING.fullmatch(node.op):
            effect = NORMALIZES if re.search(r"batch_?norm", node.name.lower()) else WRITES
            yield Unsettled(kind=node.op, name=node.name, effect=effect)


def of_operators(operators: Iterable[tuple[str, str]]) -> Iterator[Unsettled]:
    """Operators of another graph that draw random numbers, of pairs of a type and a name."""
    for kind, name in operators:
        if RANDOM.search(kind.title().replace("_", "") if kind.isupper() else kind):
            yield Unsettled(kind=kind, name=name, effect=DRAWS)


def of_keras(model: Any) -> Iterator[Unsettled]:
    """The layers of a Keras model that was assembled with `training=True` for them, whatever the call says."""
    for layer in getattr(model, "operations", None) or getattr(model, "layers", None) or ():
        nodes = getattr(layer, "_inbound_nodes", ())
        if any(node.arguments.kwargs.get("training") is True for node in nodes):
            kind = type(layer).__name__
            effect = NORMALIZES if "Normalization" in kind else DROPS
            yield Unsettled(kind=kind, name=str(layer.name), effect=effect)
        yield from of_keras(layer)
