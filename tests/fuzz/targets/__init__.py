"""The targets of the fuzzers: each module reads one kind of input and checks what comes of it.

A target has `seeds`, from which the mutations begin; `check`, which reads one case and raises where a rule is broken;
`changed`, a mutation of a case; and `smaller`, cases with less in them. The name of the file is the name of the target.
"""

from __future__ import annotations

import ast
import importlib
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

from support.features import is_there

OF_FEATURE = re.compile(r"bench\.features\.(\w+)")


class Target(Protocol):
    """What every module of this folder has.

    Attributes:
        INSTRUMENTED: packages and modules whose branches guide the mutations.
    """

    INSTRUMENTED: tuple[str, ...]

    @staticmethod
    def seeds() -> Iterator[bytes]: ...

    @staticmethod
    def check(content: bytes) -> None: ...

    @staticmethod
    def changed(content: bytes, chance: random.Random, most_bytes: int) -> bytes: ...

    @staticmethod
    def smaller(content: bytes) -> Iterator[bytes]: ...


def names() -> list[str]:
    """Names of all targets, sorted; those of features that are not there are left out."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("[!_]*.py")}
    return sorted(name for name, text in texts.items() if all(map(is_there, OF_FEATURE.findall(text))))


def instrumented(name: str) -> list[str]:
    """The modules whose branches guide the mutations of a target: they are named in it, and not imported to know them.

    A module that is imported already cannot be instrumented.
    """
    tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "INSTRUMENTED":
            return list(ast.literal_eval(statement.value))
    raise ValueError(f"target {name} says no INSTRUMENTED")


def target(name: str) -> Target:
    """The target of a name."""
    return cast("Target", importlib.import_module(f"fuzz.targets.{name}"))
