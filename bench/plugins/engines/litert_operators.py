"""The operators of a TFLite file with the types of their tensors, and what of them another format cannot hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.api.errors import RefusedError

RESOURCES = {"RESOURCE", "VARIANT"}
"""Types of tensors that hold no numbers: variables, which last from one request to the next, and tables."""
INSTEAD = "LiteRT runs the file as it is"


def operators(path: Path) -> Mapping[str, set[str]]:
    """The types of the tensors that each kind of operator reads and writes, by the kind's name, in the file's order."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes(), 0))
    kinds, types = _names(schema.BuiltinOperator), _names(schema.TensorType)
    types_by_operator: dict[str, set[str]] = {}
    for graph in model.subgraphs:
        for operator in graph.operators or ():
            code = model.operatorCodes[operator.opcodeIndex]
            kind = kinds.get(max(code.builtinCode, code.deprecatedBuiltinCode), "of an unknown kind")
            name = code.customCode.decode() if code.customCode else kind
            places = [place for side in (operator.inputs, operator.outputs) if side is not None for place in side]
            tensors = [graph.tensors[place] for place in places if place >= 0]  # -1 stands for one that is not given
            types_by_operator.setdefault(name, set()).update(
                types.get(tensor.type, "of an unknown type") for tensor in tensors
            )
    return types_by_operator


def refuse_resources(path: Path, what: str) -> None:
    """Refuse a file whose operators keep variables or tables, which only TFLite's own interpreter has.

    Args:
        path: the file.
        what: the format that has no such thing, as the message names it.

    Raises:
        RefusedError: the message names the operators.
    """
    names = [name for name, types in operators(path).items() if types & RESOURCES]
    if names:
        raise RefusedError(
            f"its {listed(names)} {'keeps' if len(names) == 1 else 'keep'} variables or tables between requests, which "
            f"{what} does not have; {INSTEAD}"
        )


def listed(names: list[str]) -> str:
    """Names of operators in a message."""
    first, last = ", ".join(names[:-1]), names[-1]
    return f"operators {first} and {last}" if first else f"operator {last}"


def _names(numbered: Any) -> dict[int, str]:
    """The names of the members of one of the schema's numbered lists."""
    return {value: name for name, value in vars(numbered).items() if isinstance(value, int)}
