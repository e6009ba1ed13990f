"""Checks the names and the places of tensors in a TFLite file, on which LiteRT raises errors that name neither."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.api import files
from bench.api.errors import InputError
from bench.tasks.failures import refused


def check(path: Path) -> None:
    """Refuse a file whose names are no texts, or whose inputs and outputs are no tensors of it.

    Args:
        path: a file that LiteRT opened, so that its tables are whole.

    Raises:
        InputError: the message names the field.
    """
    from ai_edge_litert import schema_py_generated as schema

    with refused("its tables cannot be read"):
        model = schema.Model.GetRootAs(files.read_bytes(path), 0)
        if not model.SubgraphsLength():
            raise InputError("it has no subgraph, so there is nothing to run")
        graphs = [model.Subgraphs(at) for at in range(model.SubgraphsLength())]
        for at, graph in enumerate(graphs):
            _check_graph(graph, f"its subgraph {at}")
        for at in range(model.SignatureDefsLength()):
            _check_signature(model.SignatureDefs(at), graphs, f"its signature {at}")


def _check_graph(graph: Any, what: str) -> None:
    count = graph.TensorsLength()
    for at in range(count):
        _text(graph.Tensors(at).Name(), f"the name of tensor {at} of {what}")
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
            name = _text(tensor(at).Name(), f"the name of {kind} {at} of {what}")
            _check_place(tensor(at).TensorIndex(), count, f"{kind} {name!r} of {what}")


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
