"""The house: text reaches a terminal or a file through the modules that make its control characters visible."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import bench

PACKAGE = Path(bench.__file__).parent
PRINTERS = {"cli/options.py": {"print", "typer.echo"}, "cli/commands.py": {"typer.echo"}}
"""Which modules may print, and how; `commands` prints the version of this package."""
RICH = {"rich.console.Console", "rich.text.Text", "rich.print"}


def files(*words: str, rooms: Sequence[str] = ("",)) -> Iterator[tuple[str, ast.Module]]:
    """The files in some rooms, or in all, that hold one of some words."""
    for path in sorted(path for room in rooms for path in (PACKAGE / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if any(word in text for word in words):
            yield path.relative_to(PACKAGE).as_posix(), ast.parse(text)


def test_only_the_printers_print() -> None:
    calls = ("print", "typer.echo", "click.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write")
    last = {call.rpartition(".")[2] for call in calls}
    found: dict[str, set[str]] = {}
    rooms = ("report", "cli", "decisions", "records", "features")  # children write to a log
    for name, tree in files("print", "echo", "write", rooms=rooms):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
                continue
            if (node.func.id if isinstance(node.func, ast.Name) else node.func.attr) in last:
                called = ast.unparse(node.func)
                if called in calls:
                    found.setdefault(name, set()).add(called)
    assert found == PRINTERS


def test_only_one_module_makes_consoles_and_texts_of_rich() -> None:
    found = set()
    for name, tree in files("rich"):
        nodes = [*ast.walk(tree)]
        sources = [node for node in nodes if isinstance(node, ast.ImportFrom) and str(node.module).startswith("rich")]
        local = {alias.asname or alias.name: f"{node.module}.{alias.name}" for node in sources for alias in node.names}
        called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
        based = {ast.unparse(base) for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases}
        if RICH & {local.get(text, text) for text in called | based}:
            found.add(name)
    assert found == {"report/terminal.py"}


def test_only_one_module_writes_csv() -> None:
    assert {name for name, tree in files("csv") if "csv.writer" in ast.unparse(tree)} == {"report/writing.py"}
