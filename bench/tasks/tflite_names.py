"""Checks the names and places in a TFLite file before LiteRT opens it, which follows places and names no name."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.api import files
from bench.api.errors import InputError
from bench.tasks import tflite_calls
from bench.tasks.failures import refused

_MARK = b"TFL3"
NO_MODEL = "it is not a TFLite file, or one that LiteRT cannot open"
_LEFT_OUT = -1
"""Stands for an input that an operator is not given."""


def check(path: Path) -> None:
    """Refuse a file whose names are no texts, or whose places are no tensors and no subgraphs of it.

    Args:
        path: the file.

    Raises:
        InputError: the message names the field.
    """
    from ai_edge_litert import schema_py_generated as schema

    with refused(f"{NO_MODEL}: its tables cannot be read"), files.opened(path) as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if content[len(_MARK) : 2 * len(_MARK)] != _MARK:
            raise InputError(f"{NO_MODEL}: it has no mark {_MARK.decode()}")
        model = schema.Model.GetRootAs(content, 0)
        graphs = [_there(model.Subgraphs(at), f"its subgraph {at}") for at in range(model.SubgraphsLength())]
        if not graphs:
            raise InputError("it has no subgraph, so there is nothing to run")
        for at, graph in enumerate(graphs):
            _check_graph(graph, model, f"its subgraph {at}")
        tflite_calls.check(model, graphs)
        for at in range(model.SignatureDefsLength()):
            signature = _there(model.SignatureDefs(at), f"its signature {at}")
            _check_signature(signature, graphs, f"its signature {at}")


def _check_graph(graph: Any, model: Any, what: str) -> None:
    count = graph.TensorsLength()
    for at in range(count):
        tensor = _there(graph.Tensors(at), f"tensor {at} of {what}")
        _text(tensor.Name(), f"the name of tensor {at} of {what}")
        if tensor.Buffer() >= max(model.BuffersLength(), 1):
            raise InputError(
                f"tensor {at} of {what} is in buffer {tensor.Buffer()}, and it has {model.BuffersLength()}"
            )
    for at in range(graph.OperatorsLength()):
        operator = _there(graph.Operators(at), f"operator {at} of {what}")
        if operator.OpcodeIndex() >= model.OperatorCodesLength():
            kinds = model.OperatorCodesLength()
            raise InputError(f"operator {at} of {what} is of kind {operator.OpcodeIndex()} of {kinds}")
        for kind, length, place in (
            ("input", operator.InputsLength(), operator.Inputs),
            ("output", operator.OutputsLength(), operator.Outputs),
        ):
            for number in range(length):
                if place(number) != _LEFT_OUT:
                    _check_place(place(number), count, f"{kind} {number} of operator {at} of {what}")
    for kind, length, tensor in (
        ("input", graph.InputsLength(), graph.Inputs),
        ("output", graph.OutputsLength(), graph.Outputs),
    ):
        for at in range(length):
            _check_place(tensor(at), count, f"{kind} {at} of {what}")


def _check_signature(signature: Any, graphs: list[Any], what: str) -> None:
    key = _text(signature.SignatureKey(), f"the key of {what}")
    what = f"its signature {key!r}"
    if signature.SubgraphIndex() >= len(graphs):
        raise InputError(f"{what} is of subgraph {signature.SubgraphIndex()}, and it has {len(graphs)}")
    count = graphs[signature.SubgraphIndex()].TensorsLength()
    sides: tuple[tuple[str, int, Callable[[int], Any]], ...] = (
        ("input", signature.InputsLength(), signature.Inputs),
        ("output", signature.OutputsLength(), signature.Outputs),
    )
    for kind, length, tensor in sides:
        for at in range(length):
            _there(tensor(at), f"{kind} {at} of {what}")
            name = _text(tensor(at).Name(), f"the name of {kind} {at} of {what}")
            _check_place(tensor(at).TensorIndex(), count, f"{kind} {name!r} of {what}")


def _there(table: Any, what: str) -> Any:
    if table is None:
        raise InputError(
            f"{what} is not there, which every file has that TensorFlow's converter wrote",
            fix="write it anew with tf.lite.TFLiteConverter",
        )
    return table


def _check_place(place: int, count: int, what: str) -> None:
    if not 0 <= place < count:
        raise InputError(f"{what} is tensor {place}, and there are {count}")


def _text(name: bytes | None, what: str) -> str:
    """A name of the file, which may be missing.

    Raises:
        InputError: it is not in UTF-8.
    """
    try:
        return (name or b"").decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{what} is {name!r}, which is no text in UTF-8") from error
