"""The house: text reaches a terminal or a file through the modules that make its control characters visible."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import bench

PACKAGE = Path(bench.__file__).parent
PRINTERS = {"cli/options.py": {"print", "typer.echo"}, "cli/commands.py": {"typer.echo"}}
"""Which modules may print, and how; `commands` prints the version of this package."""
RICH = {"rich.console.Console", "rich.text.Text", "rich.print"}


def files() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def test_only_the_printers_print() -> None:
    found: dict[str, set[str]] = {}
    for name, tree in files():
        if name.partition("/")[0] not in ("report", "cli", "decisions", "records"):
            continue  # children write to a log
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (called := ast.unparse(node.func)) in (
                *("print", "typer.echo", "click.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write"),
            ):
                found.setdefault(name, set()).add(called)
    assert found == PRINTERS


def test_only_one_module_makes_consoles_and_texts_of_rich() -> None:
    found = set()
    for name, tree in files():
        nodes = [*ast.walk(tree)]
        sources = [node for node in nodes if isinstance(node, ast.ImportFrom) and str(node.module).startswith("rich")]
        local = {alias.asname or alias.name: f"{node.module}.{alias.name}" for node in sources for alias in node.names}
        called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
        based = {ast.unparse(base) for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases}
        if RICH & {local.get(text, text) for text in called | based}:
            found.add(name)
    assert found == {"report/terminal.py"}


def test_only_one_module_writes_csv() -> None:
    assert {name for name, tree in files() if "csv.writer" in ast.unparse(tree)} == {"report/writing.py"}
