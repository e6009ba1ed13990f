"""Names say what a thing is: no local is a pronoun or a bare participle, nor is a function, a module or a folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import bench

PACKAGE = Path(bench.__path__[0])
BARE = frozenset({"found", "one", "told", "asked", "made", "kept", "held", "given"})
OF_MODULES = BARE | {
    *("begun", "chosen", "contained", "counted", "declared", "everywhere", "expected", "generated", "installed"),
    *("loaded", "measured", "raised", "replaced", "resized", "restated", "returned", "settled", "shared", "stated"),
    *("starts", "unknown", "wanted", "whole"),
}
NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
REQUESTED = {
    *("onnxfile/requests.py: given", "onnxfile/shapes/steps.py: given", "onnxfile/shapes/inference.py: given"),
}
"""Parameters that are passed by name from elsewhere: those of requests, and of methods that a protocol names."""


def bare_names(tree: ast.Module) -> Iterator[str]:
    """Locals, parameters and functions with a bare name; fields of classes are no locals."""
    fields = {
        id(statement.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields:
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, NAMED) and node.name is not None:
            yield node.name
        elif isinstance(node, ast.alias) and node.asname is not None:
            yield node.asname


def test_no_local_and_no_function_has_a_bare_name() -> None:
    bare = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in PACKAGE.rglob("*.py")
        for name in bare_names(ast.parse(path.read_text(encoding="utf-8")))
        if name in BARE
    }
    assert bare == REQUESTED


def test_no_module_has_a_bare_name() -> None:
    assert [path for path in PACKAGE.rglob("*") if path.suffix in ("", ".py") and path.stem in OF_MODULES] == []
