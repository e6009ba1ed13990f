"""Error messages say what is wrong, what was found, what is allowed, and what mends it: a sample of sixty, read."""

from __future__ import annotations

import ast
import functools
import tomllib
from pathlib import Path

import pytest

from bench.api.loading import PACKAGE

MESSAGES = tomllib.loads((Path(__file__).parent / "error_messages.toml").read_text())["messages"]


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
    return [" ".join(map(text_of, (*call.args, *(word.value for word in call.keywords)))) for call in calls]


def test_sixty_messages_are_read() -> None:
    assert len({tuple(message[:3]) for message in MESSAGES}) == len(MESSAGES) >= 60


@pytest.mark.parametrize(("path", "function", "wrong", "found", "allowed", "mends"), MESSAGES)
def test_message_has_four_parts(path: str, function: str, wrong: str, found: str, allowed: str, mends: str) -> None:
    own = [part for part in (wrong, found, allowed, mends) if not part.startswith("@")]
    assert all(own)
    matching = [message for message in raised(path, function) if all(part in message for part in own)]
    assert len(matching) == 1, f"one message of {function} has {own}: {raised(path, function)}"
    for part in {wrong, found, allowed, mends}.difference(own):
        other, _, words = part.removeprefix("@").partition(": ")
        assert words, part
        assert words in source(other), f"{other} does not say {words!r}"
