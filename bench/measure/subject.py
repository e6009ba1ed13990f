"""What a block measures: a cell that is ready, described without its plugins, and the requests to its worker."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from bench.api.cell import Cell
from bench.measure.interpreter import OWN, Interpreter


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """A request to a worker: the operation and its arguments, as `Child.request` takes them."""

    operation: Callable[..., Any]
    arguments: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """A cell that is ready to be measured, described without its plugins.

    Attributes:
        cell: the cell.
        key: key of the cell's record.
        environment: environment variables of the worker's process.
        imports: the request that imports the packages of the cell's runtime.
        opening: the request that opens the cell's session and leaves it open.
        rss_bytes: resident memory of a worker that runs the cell, as the verification measured it.
        interpreter: runs the worker.
        program: what the machine's state acts on, see `comparison.Series`; empty for the name of the runtime.
    """

    cell: Cell
    key: str
    environment: Mapping[str, str]
    imports: Request
    opening: Request
    rss_bytes: int
    interpreter: Interpreter = OWN
    program: str = ""
