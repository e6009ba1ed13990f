"""Columns as data: the title, the unit and the interval of a key of `Row`, said where the key is declared."""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Mapping, Sequence

Steps = Sequence[tuple[float, str]]
"""The factor and the name of each unit of a quantity, the smallest first."""
TIME = ((1e3, "µs"), (1e6, "ms"), (1e9, "s"))
BYTES = ((1e3, "kB"), (1e6, "MB"), (1e9, "GB"))
COUNT = ((1.0, ""), (1e3, "thousand"), (1e6, "million"), (1e9, "billion"))


class Unit(enum.Enum):
    """How the values of a column are stored, which decides how they are written."""

    PLAIN = "text or number"
    TIME = "nanoseconds"
    BYTES = "bytes"
    COUNT = "count"
    RATIO = "ratio"
    SHARE = "share"
    LOSS = "loss in Row.metric_loss_unit"

    @property
    def steps(self) -> Steps | None:
        """Units that the values can be written in; None where there is no choice."""
        return {Unit.TIME: TIME, Unit.BYTES: BYTES, Unit.COUNT: COUNT}.get(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnSpec:
    """What tables, the page, plots, exports and the data frame need to know of a key of `Row`.

    `columns_of` fills in the key and the type, and a title where none is given.

    Attributes:
        key: the key.
        type: `str`, `int` or `float`.
        title: its title, without a unit.
        unit: how its values are stored.
        decimals: decimals of a share in per cent.
        like: the key whose unit its values are written in, where that is another: the median's for percentiles.
        ends: the keys of the ends of its interval, each None where the interval has no such end.
        in_brackets: whether tables and the page print the interval behind the value.
        in_details: whether the details of a cell on the page have a line for it.
        export: its name in exports; empty where it is not exported.
    """

    key: str = ""
    type: type = str
    title: str = ""
    unit: Unit = Unit.PLAIN
    decimals: int = 1
    like: str = ""
    ends: tuple[str | None, str | None] = (None, None)
    in_brackets: bool = False
    in_details: bool = True
    export: str = ""

    @property
    def brackets(self) -> tuple[str, str] | None:
        """The keys of the interval that is printed behind the value; None where none is."""
        low, high = self.ends
        return (low, high) if self.in_brackets and low and high else None


def columns_of(rows: type) -> Mapping[str, ColumnSpec]:
    """The columns of a dataclass by key, from annotations such as `Annotated[int, ColumnSpec(title="TTFT")]`."""
    columns = {}
    for key, hint in typing.get_type_hints(rows, include_extras=True).items():
        value, *said = typing.get_args(hint) if typing.get_origin(hint) is typing.Annotated else (hint,)
        column = said[0] if said else ColumnSpec()
        kind = next(kind for kind in (*typing.get_args(value), value) if kind is not type(None))
        title = column.title or key.removesuffix("_ns").removesuffix("_bytes").replace("_", " ")
        columns[key] = dataclasses.replace(column, key=key, type=kind, title=title, like=column.like or key)
    return columns
