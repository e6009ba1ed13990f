"""Error messages say what is wrong, what was found, what is allowed, and what mends it: a sample of sixty, read."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from bench.api.loading import PACKAGE
from bench.cli.commands import app
from support.features import needs

MESSAGES = tomllib.loads((Path(__file__).parent / "error_messages.toml").read_text())["messages"]


def features_of(message: list[str]) -> set[str]:
    """The features in whose folders parts of a message stand."""
    paths = [part.removeprefix("@").partition(": ")[0] for part in message]
    return {path.split("/")[1] for path in paths if path.startswith("features/")}


@functools.cache
def source(path: str) -> str:
    return (PACKAGE / path).read_text()


def text_of(node: ast.AST) -> str:
    """The text of an expression, with `{expression}` for what is filled in; other expressions as they are written."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value) + (f":{text_of(node.format_spec)}" if node.format_spec else "") + "}"
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return ast.unparse(node)


def constants(path: str) -> dict[str, str]:
    """The texts that the module binds to names."""
    return {
        target.id: node.value.value
        for node in ast.parse(source(path)).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


@functools.cache
def raised(path: str, function: str) -> list[str]:
    """The messages, with their mends, of all errors that functions of a name raise in a file."""
    functions = [
        node
        for node in ast.walk(ast.parse(source(path)))
        if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    calls = [
        node.exc
        for each in functions
        for node in ast.walk(each)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    ]
    texts = constants(path)
    return [
        re.sub(r"\{?\b(\w+)\b\}?", lambda name: texts.get(name[1], name[0]), words)
        for words in (" ".join(map(text_of, (*call.args, *(word.value for word in call.keywords)))) for call in calls)
    ]


def test_sixty_messages_are_read() -> None:
    assert len({tuple(message[:3]) for message in MESSAGES}) == len(MESSAGES) >= 60


@pytest.mark.parametrize(
    ("path", "function", "wrong", "found", "allowed", "mends"),
    [pytest.param(*message, marks=[needs(name) for name in features_of(message)]) for message in MESSAGES],
)
def test_message_has_four_parts(path: str, function: str, wrong: str, found: str, allowed: str, mends: str) -> None:
    own = [part for part in (wrong, found, allowed, mends) if not part.startswith("@")]
    assert all(own)
    matching = [message for message in raised(path, function) if all(part in message for part in own)]
    assert len(matching) == 1, f"one message of {function} has {own}: {raised(path, function)}"
    for part in {wrong, found, allowed, mends}.difference(own):
        other, _, words = part.removeprefix("@").partition(": ")
        assert words, part
        assert words in source(other), f"{other} does not say {words!r}"


FOREIGN = {"--all", "--oneline"}
"""Options of git that messages name."""


def options_of(command: Any) -> Iterator[str]:
    """The options of a command and of those below it."""
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    for below in getattr(command, "commands", {}).values():
        yield from options_of(below)


def said() -> Iterator[tuple[str, str]]:
    """The path of each module, and the texts of each of its errors, raised or returned."""
    for path in sorted(PACKAGE.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        raised = [node.exc for node in nodes if isinstance(node, ast.Raise)]
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            if call in raised or ast.unparse(call.func).endswith("Error"):
                parts = (*call.args, *(word.value for word in call.keywords))
                yield str(path.relative_to(PACKAGE)), " ".join(map(text_of, parts))


def test_the_core_names_no_command_of_a_feature() -> None:
    """Its messages are to be true without the folder of any feature."""
    program = typer.main.get_command(app)
    of_features = {
        name
        for name, command in program.commands.items()  # type: ignore[attr-defined]
        if any(str(each.callback.__module__).startswith("bench.features.") for each in callbacks(command))
    }
    assert len(of_features) >= 10
    named = [
        f"{path}: bench {name}"
        for path, text in said()
        if not path.startswith("features/")
        for name in re.findall(r"\bbench (\w+)", text)
        if name in of_features
    ]
    assert named == []


def callbacks(command: Any) -> list[Any]:
    """A command, or those of a group, that call a function."""
    return [each for each in (command, *getattr(command, "commands", {}).values()) if each.callback is not None]


def test_commands_and_options_that_messages_name_exist() -> None:
    program = typer.main.get_command(app)
    commands = program.commands  # type: ignore[attr-defined]
    options = {*options_of(program), *FOREIGN}
    unknown, num_commands, num_options = [], 0, 0
    for path, text in said():
        for name, below in re.findall(r"\bbench (\w+)(?: (\w+))?", text):
            num_commands += 1
            inner = getattr(commands.get(name), "commands", None)
            if name not in commands or (inner is not None and below and below not in inner):
                unknown.append(f"{path}: bench {name} {below}")
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text):
            num_options += 1
            if option not in options:
                unknown.append(f"{path}: {option}")
    assert unknown == []
    assert num_commands > 30, "of which each feature has some"
    assert num_options > 60
