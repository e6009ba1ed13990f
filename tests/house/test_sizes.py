"""Functions of commands are short enough to be read at a glance."""

from __future__ import annotations

import ast
from pathlib import Path

import bench.cli

CLI = Path(bench.cli.__path__[0])
MOST_LINES = 60


def test_functions_of_commands_have_at_most_60_lines() -> None:
    long = {
        f"{path.name}: {node.name}": lines
        for path in (*CLI.glob("*.py"), *CLI.parent.glob("features/*/command.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and node.end_lineno is not None
        and (lines := node.end_lineno - node.lineno + 1) > MOST_LINES
    }
    assert long == {}
