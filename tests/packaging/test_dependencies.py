"""Every package that `bench/` imports is declared in pyproject.toml, as a dependency or in an extra."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def imported(source: str) -> set[str]:
    """Top-level names of the modules that a file imports, at its top or inside a function."""
    nodes = list(ast.walk(ast.parse(source)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names}


@functools.cache
def installed() -> Mapping[str, list[str]]:
    """Distributions by the modules that they give."""
    return importlib.metadata.packages_distributions()


@functools.cache
def declared() -> set[str]:
    """Distributions that pyproject.toml names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = sum(project["optional-dependencies"].values(), project["dependencies"])
    return {canonicalize_name(Requirement(text).name) for text in texts}


def undeclared(source: str) -> set[str]:
    """Installed distributions that a file imports and pyproject.toml does not name."""
    foreign = imported(source) - sys.stdlib_module_names - {"bench"}
    return {canonicalize_name(installed()[name][0]) for name in foreign if name in installed()} - declared()


@pytest.mark.parametrize("room", sorted(path.name for path in (ROOT / "bench").iterdir() if path.name[0] != "_"))
def test_what_is_imported_is_declared(room: str) -> None:
    folder = ROOT / "bench" / room
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
        if path.suffix == ".py":
            assert undeclared(path.read_text(encoding="utf-8")) == set(), path


def test_what_is_not_declared_is_noticed() -> None:
    assert undeclared("import pygments, bench\n\ndef f():\n    from numpy import linalg\n") == {"pygments"}
