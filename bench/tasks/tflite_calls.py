"""Checks the subgraphs that operators of a TFLite file name, as the body of a WHILE: LiteRT follows any of them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.api.errors import InputError

CALLING = {
    "WHILE": ("WhileOptions", ("CondSubgraphIndex", "BodySubgraphIndex")),
    "IF": ("IfOptions", ("ThenSubgraphIndex", "ElseSubgraphIndex")),
    "CALL_ONCE": ("CallOnceOptions", ("InitSubgraphIndex",)),
    "CALL": ("CallOptions", ("Subgraph",)),
    "STABLEHLO_WHILE": ("StablehloWhileOptions", ("CondSubgraphIndex", "BodySubgraphIndex")),
    "STABLEHLO_CASE": ("StablehloCaseOptions", ("BranchSubgraphIndices",)),
    "STABLEHLO_REDUCE": ("StablehloReduceOptions", ("BodySubgraphIndex",)),
    "STABLEHLO_REDUCE_WINDOW": ("StablehloReduceWindowOptions", ("BodySubgraphIndex",)),
    "STABLEHLO_SCATTER": ("StablehloScatterOptions", ("UpdateComputationSubgraphIndex",)),
    "STABLEHLO_SORT": ("StablehloSortOptions", ("ComparatorSubgraphIndex",)),
    "STABLEHLO_COMPOSITE": ("StableHLOCompositeOptions", ("DecompositionSubgraphIndex",)),
}
"""Operators that name subgraphs, with the type of their options and its fields that do."""
MOST_NESTED = 100
"""Subgraphs that are named within one another; LiteRT calls itself for each of them."""
_MOST_PREPARED = 2**18
"""Subgraphs below one, each counted as often as operators name it: LiteRT prepares it so many times."""


def check(model: Any, graphs: Sequence[Any]) -> None:
    """Refuse a file with an operator that names no subgraph of it, or with subgraphs that name one another in a circle.

    Subgraphs that LiteRT would prepare very many times are refused, too.

    Args:
        model: the file.
        graphs: its subgraphs, whose operators are of kinds that the file has.

    Raises:
        InputError: the message names the operator or the subgraph.
    """
    left = {at: _named(model, graph, len(graphs), f"its subgraph {at}") for at, graph in enumerate(graphs)}
    prepared: dict[int, int] = {}
    for _ in range(MOST_NESTED):
        ready = [at for at, named in left.items() if not any(other in left for other in named)]
        if not ready:
            raise InputError(f"its subgraph {_in_circle(left)} names itself, or is named by one that it names")
        for at in ready:
            prepared[at] = sum(1 + prepared[other] for other in left.pop(at))
            if prepared[at] > _MOST_PREPARED:
                raise InputError(f"its subgraph {at} names others {prepared[at]:,} times, counted with those they name")
        if not left:
            return
    raise InputError(f"its subgraph {min(left)} names others more than {MOST_NESTED} deep")


def _named(model: Any, graph: Any, count: int, what: str) -> list[int]:
    """The subgraphs that the operators of a subgraph name, each as often as they do.

    Raises:
        InputError: one does not exist, or the options of an operator are of another type.
    """
    numbers = []
    for at in range(graph.OperatorsLength()):
        operator = graph.Operators(at)
        code = model.OperatorCodes(operator.OpcodeIndex())
        for field, number in _calls(operator, max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), at, what):
            if not 0 <= number < count:
                raise InputError(f"{field} of operator {at} of {what} is subgraph {number}, and there are {count}")
            numbers.append(number)
    return numbers


def _calls(operator: Any, kind: int, at: int, what: str) -> Iterator[tuple[str, int]]:
    from ai_edge_litert import schema_py_generated as schema

    name = _name(schema.BuiltinOperator, kind)
    if name not in CALLING:
        return
    wanted, fields = CALLING[name]
    for types, stated, table in (
        (schema.BuiltinOptions, operator.BuiltinOptionsType(), operator.BuiltinOptions()),
        (schema.BuiltinOptions2, operator.BuiltinOptions2Type(), operator.BuiltinOptions2()),
    ):
        if _name(types, stated) == wanted and table is not None:
            options = getattr(schema, wanted)()
            options.Init(table.Bytes, table.Pos)
            for field in fields:
                place = getattr(options, field)
                several = getattr(options, f"{field}Length", None)
                for number in [place()] if several is None else map(place, range(several())):
                    yield field, number
            return
    raise InputError(f"operator {at} of {what} is {name} and has no {wanted}, which name its subgraphs")


@functools.cache
def _name(numbered: type, number: int) -> str | None:
    """The name of a member of one of the schema's numbered lists."""
    return next((name for name, value in vars(numbered).items() if value == number), None)


def _in_circle(left: Mapping[int, Sequence[int]]) -> int:
    """A subgraph of a circle, where each names another of them."""
    at, passed = min(left), set[int]()
    while at not in passed:
        passed.add(at)
        at = min(other for other in left[at] if other in left)
    return at
