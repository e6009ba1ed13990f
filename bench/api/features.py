"""The features that are there: folders of `bench/features`, whose files say what each adds to the core.

The core imports no feature by name. Where features may add something, it asks for the file of that name in all of them:

    command.py      `COMMANDS`: the commands, by the heading of `bench --help`
    lines.py        `KINDS`: kinds of lines that are stored with a cell, see `bench.records.lines.FeatureLine`
    tables.py       `TABLES`: what `bench show --sweep NAME` prints, by that name
    run_tables.py   `below_rows`: what `bench run` prints below its rows
    plots.py        `paths`: what `bench plot` draws besides
    page.py         `sections`: what the page of `bench report` shows below the rows of a task
    explain.py      `addition`: the table that `bench explain` shows of a cell besides, an `ExplanationTable`
    slowdown.py     `explain`: which part of a model makes one side slower, see `bench.pipeline.slowdown`
    deployment.py   `addition`: what `bench pick` prints besides, and keeps with a deployment
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Sequence
from types import ModuleType

from bench.api import loading


def modules(part: str) -> list[ModuleType]:
    """The files of a name of all features, by the features' names."""
    return [importlib.import_module(f"bench.features.{name}.{part}") for name in _with(part)]


@functools.cache
def _with(part: str) -> tuple[str, ...]:
    """The features that have a file of a name."""
    return tuple(sorted(path.parent.name for path in (loading.PACKAGE / "features").glob(f"*/{part}.py")))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExplanationTable:
    """What a feature adds to an explanation: a table under a title, which is left out where it has no lines.

    Attributes:
        key: its name in the explanation as JSON.
        content: its value there.
        title: the title.
        text: a paragraph before the table.
        columns: titles of the columns.
        lines: the lines, with a text for each column.
        num_names: number of columns that hold names, from the left.
    """

    key: str
    content: object
    title: str
    text: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]]
    num_names: int = 1
