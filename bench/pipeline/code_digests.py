"""Digests of the code that makes a figure.

The code that counts is found by reading it: from the plugin or the function that makes the figure, every definition of
this package that is reached through names and imports counts, and no other definition. Docstrings, comments, layout and
methods marked with `beside_figures` do not count.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from bench import api
from bench.api import Plugin, cache, loading
from bench.api.collector import without_collector
from bench.api.program import ProgramRuntime
from bench.plugins import catalog

_EFFECTS = ""
"""In place of a name: the statements of a file that have an effect when the file is imported."""
_MACHINERY = frozenset({catalog.__name__, loading.__name__, cache.__name__})
"""Modules that find and keep plugins and files: reading stops there, for plugins and files have their own digests."""


def of_plugin(plugin: Plugin, *, counted: frozenset[str] = frozenset()) -> str:
    """Hash of a plugin's file and of every definition of this package that it reaches, and of its program if it is one.

    Args:
        counted: names of methods to count although they are marked with `beside_figures`.
    """
    code = _digest(plugin.path, None, plugin.path.stat().st_mtime_ns, beside=_beside_figures() - counted)
    if not isinstance(plugin, ProgramRuntime):
        return code
    return cache.digest([code, cache.digest_files(plugin.files())])


def of_function(function: Callable[..., object]) -> str:
    """Hash of a module-level function of this package and of every definition of the package that it reaches."""
    path = _file_of(function.__module__)
    assert path is not None, function.__module__
    return _digest(path, function.__name__, path.stat().st_mtime_ns, beside=_beside_figures())


_READING = threading.Lock()
"""Files are parsed by one thread at a time: in CPython, two parsers that are interrupted by one another may raise a
`SystemError` about their depth of recursion."""


@functools.cache
def _digest(path: Path, name: str | None, _changed_ns: int, *, beside: frozenset[str]) -> str:
    with _READING, without_collector():
        return _Reading(beside).digest(path, name)


_Target: TypeAlias = tuple[str, str | None]
"""A module of this package, and a name in it; None for the module itself."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Source:
    """A parsed file.

    Its definitions are made bare when they are read: most of a file is reached by no figure.

    Attributes:
        definitions: by name, the statements at the top of the file that bind the name: functions, classes, assignments;
            under `_EFFECTS`, the statements that have an effect when the file is imported, among them functions that a
            decorator registers.
        imports: what each imported name stands for.
    """

    definitions: Mapping[str, Sequence[ast.stmt]]
    imports: Mapping[str, _Target]
    beside: frozenset[str]
    _read: dict[str, tuple[str, Sequence[_Target | str]]] = dataclasses.field(default_factory=dict)

    def read(self, name: str) -> tuple[str, Sequence[_Target | str]]:
        """The definitions of a name as text, and what they name: targets of imports, and names of this file."""
        if name not in self._read:
            targets: dict[_Target | str, None] = {}
            for statement in self.definitions[name]:
                _make_bare(statement, self.beside)
                targets |= dict.fromkeys(self._named(statement))
            self._read[name] = "\n".join(map(ast.dump, self.definitions[name])), (*targets,)
        return self._read[name]

    def _named(self, statement: ast.stmt) -> Iterator[_Target | str]:
        nodes = _nodes(statement)
        local = {**self.imports, **_imports(nodes)}
        for node in nodes:
            if isinstance(node, ast.Attribute) and (owner := _dotted(node.value)) in local:
                module, symbol = local[owner]
                yield module, symbol or node.attr
            elif isinstance(node, ast.Name):
                yield local.get(node.id, node.id)


class _Reading:
    """Follows names and imports from a definition to all that it reaches."""

    def __init__(self, beside: frozenset[str]) -> None:
        self._beside = beside
        self._sources: dict[Path, _Source] = {}
        self._reached: dict[tuple[Path, str], str] = {}
        self._imported: set[Path] = set()
        self._followed: set[_Target] = set()

    def digest(self, path: Path, name: str | None) -> str:
        """Hash of a file, or of one definition in it, with all that it reaches."""
        self._import(path)
        for each in self._parsed(path).definitions if name is None else [name]:
            self._reach(path, each)
        # By names rather than by paths: a checkout may lie anywhere.
        content = sorted((place.stem, each, text) for (place, each), text in self._reached.items())
        return hashlib.sha256(repr(content).encode()).hexdigest()

    def _parsed(self, path: Path) -> _Source:
        if path not in self._sources:
            self._sources[path] = _parse(path, path.stat().st_mtime_ns, self._beside)
        return self._sources[path]

    def _reach(self, path: Path, name: str) -> None:
        """Count the definition of a name in a file, and every definition that it names in turn."""
        source = self._parsed(path)
        if name in source.imports:
            self._follow(*source.imports[name])
        elif name in source.definitions and (path, name) not in self._reached:
            self._reached[path, name], named = source.read(name)
            for each in named:
                self._reach(path, each) if isinstance(each, str) else self._follow(*each)

    def _import(self, path: Path) -> None:
        """Count the effects of importing a file, and of importing the files that it imports at its top."""
        if path not in self._imported:
            self._imported.add(path)
            for module, _ in self._parsed(path).imports.values():
                self._follow(module, None)
            self._reach(path, _EFFECTS)

    def _follow(self, module: str, symbol: str | None) -> None:
        if (module, symbol) in self._followed:
            return
        self._followed.add((module, symbol))
        if (file := _file_of(module)) is not None:
            self._follow(module.rpartition(".")[0], None)  # importing a module runs the packages above it, too
            self._import(file)
            if symbol is not None:
                self._reach(file, symbol)


@functools.cache
def _beside_figures() -> frozenset[str]:
    """Names of the plugins' methods that are marked as shown beside the figures."""
    interfaces = [item for item in vars(api).values() if isinstance(item, type)]
    return frozenset(
        name for item in interfaces for name, method in vars(item).items() if getattr(method, "beside_figures", False)
    )


def _dotted(node: ast.expr) -> str:
    """The dotted name that a node stands for, such as `bench.api`; empty for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    owner = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{owner}.{node.attr}" if owner and isinstance(node, ast.Attribute) else ""


def _make_bare(statement: ast.stmt, beside: frozenset[str]) -> None:
    """Remove docstrings, annotations, errors and the methods of `beside` from a statement: they make no figure."""
    nodes: list[ast.AST] = [statement]
    for node in nodes:  # with the statements in it; no expression has one
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            node.body = [item for item in node.body if not _is_text(item)]
        if isinstance(node, ast.Raise):
            node.exc = node.cause = None
        elif isinstance(node, ast.ClassDef) and node.bases:  # a plugin is derived from its interface
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name in beside]
            node.body = [item for item in node.body if item not in methods]
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(value=...)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for arg in (each for each in _nodes(node.args) if isinstance(each, ast.arg)):
                arg.annotation = None
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            nodes += getattr(node, field, ())


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


@functools.cache
def _parse(path: Path, _changed_ns: int, beside: frozenset[str]) -> _Source:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    statements = list(_top([item for item in body if not _is_text(item)]))
    imports = _imports(item for item in statements if isinstance(item, ast.Import | ast.ImportFrom))
    own = {*imports, *(name for statement in statements for name in _bound(statement))}
    definitions: dict[str, list[ast.stmt]] = {}
    for statement in statements:
        if isinstance(statement, ast.Import | ast.ImportFrom | ast.Pass):
            continue
        names = _bound(statement)
        for name in names if names and not _registers(statement, own) else [*names, _EFFECTS]:
            definitions.setdefault(name, []).append(statement)
    return _Source(definitions=definitions, imports=imports, beside=beside)


def _top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a file, those under `if` and `try` included, for they bind names of the file, too."""
    for statement in body:
        if isinstance(statement, ast.If):
            is_for_types = ast.unparse(statement.test) == "TYPE_CHECKING"
            yield from () if is_for_types else [ast.Expr(value=statement.test)]
            yield from _top([*(() if is_for_types else statement.body), *statement.orelse])
        elif isinstance(statement, ast.Try):
            caught = [item for handler in statement.handlers for item in handler.body]
            yield from _top([*statement.body, *caught, *statement.orelse, *statement.finalbody])
        else:
            yield statement


def _bound(statement: ast.stmt) -> list[str]:
    """The names that a statement binds."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return []
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    names = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return [name.id for name in names if isinstance(name.ctx, ast.Store)]  # a key that is set binds no name


def _registers(statement: ast.stmt, own: set[str]) -> bool:
    """Whether a definition may register itself when its file is imported, through a decorator of this package."""
    decorators = statement.decorator_list if isinstance(statement, ast.FunctionDef | ast.ClassDef) else []
    return any(isinstance(node, ast.Name) and node.id in own for each in decorators for node in ast.walk(each))


def _nodes(statement: ast.AST) -> list[ast.AST]:
    """The nodes of a syntax tree in the order of `ast.walk`, which takes three times as long, but no contexts."""
    nodes = [statement]
    for node in nodes:
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                nodes += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and field != "ctx":
                nodes.append(value)
    return nodes


def _imports(nodes: Iterable[ast.AST]) -> dict[str, _Target]:
    """The names that the nodes of a syntax tree import from this package: see `_Source.imports`."""
    targets: dict[str, _Target] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            targets |= {alias.asname or alias.name: (alias.name, None) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                is_module = whole in _MACHINERY or _file_of(whole) is not None
                targets[alias.asname or alias.name] = (whole, None) if is_module else (node.module, alias.name)
    return {name: target for name, target in targets.items() if target[0].partition(".")[0] == loading.PACKAGE.name}


def _file_of(module: str) -> Path | None:
    """The file of a module of this package; None for other modules, and for `_MACHINERY`."""
    package, *names = module.split(".")
    if package != loading.PACKAGE.name or module in _MACHINERY:
        return None
    place = loading.PACKAGE.joinpath(*names)
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)
