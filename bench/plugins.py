"""Plugins are files: listed by filename, loaded by path.

A folder on the search path may hold `exporters/ variants/ runtimes/` (one file a plugin) and `models/ datasets/` (one
folder each). The path is `$BENCH_PATH` (folders joined by `:`), the working folder, the checkout that holds this
package, and the package itself; the first folder that has a name wins.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
import functools
import hashlib
import importlib.util
import inspect
import os
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from bench.api import Exporter, Plugin, Runtime, Task, Variant
from bench.cell import Cell
from bench.errors import InputError, PluginError

PACKAGE = Path(__file__).parent
_LOADING = threading.RLock()
ENTRY = {"models": "task.py", "datasets": "dataset.py"}
P = TypeVar("P", bound=Plugin)


def search_path() -> tuple[Path, ...]:
    """Folders that may hold plugins, first to last."""
    named = [Path(folder) for folder in os.environ.get("BENCH_PATH", "").split(os.pathsep) if folder]
    for folder in named:
        if not folder.is_dir():
            raise InputError(f"BENCH_PATH names a folder that does not exist: {folder}")
    folders = [*named, Path.cwd(), PACKAGE.parent, PACKAGE]
    return tuple(dict.fromkeys(folder.resolve() for folder in folders))


@functools.cache
def find(kind: str) -> dict[str, Path]:
    """Files of one kind (`exporters`, `variants`, `runtimes`, `models`, `datasets`) by name, sorted."""
    pattern = f"*/{ENTRY[kind]}" if kind in ENTRY else "*.py"
    found: dict[str, Path] = {}
    for folder in search_path():
        for path in (folder / kind).glob(pattern):
            name = path.parent.name if kind in ENTRY else path.stem
            if not name.startswith("_"):
                found.setdefault(name, path)
    return dict(sorted(found.items()))


def load_module(path: Path) -> ModuleType:
    """Execute the Python file at `path` as a module of its own, once.

    Raises:
        PluginError: the file is missing or raises while it is executed.
    """
    with _LOADING:  # steps run in threads, and each file is to be executed once
        return _load_module(path.resolve())


@functools.cache
def _load_module(path: Path) -> ModuleType:
    name = f"bench_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before executing: dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        sys.modules.pop(name, None)
        raise PluginError(f"cannot load {path}: {type(error).__name__}: {error}") from error
    return module


def _load(kind: str, name: str, base: type[P]) -> P:
    found = find(kind)
    if name not in found:
        raise InputError(f"no {base.__name__.lower()} named {name!r}; {suggest(name, found)}")
    path = found[name]
    module = load_module(path)
    classes = [
        item
        for item in vars(module).values()
        if inspect.isclass(item) and issubclass(item, base) and item.__module__ == module.__name__
    ]
    if len(classes) != 1:
        raise PluginError(f"{path} must define one subclass of bench.api.{base.__name__}; it defines {len(classes)}")
    if inspect.isabstract(classes[0]):
        missing = ", ".join(sorted(getattr(classes[0], "__abstractmethods__", ())))
        raise PluginError(f"{path}: {classes[0].__name__} does not define {missing}")
    return classes[0](name=name, path=path)


@functools.cache
def task(name: str) -> Task:
    """The task in the folder `models/<name>`."""
    return _load("models", name, Task)


@functools.cache
def exporter(name: str) -> Exporter:
    """The exporter in the file `exporters/<name>.py`."""
    return _load("exporters", name, Exporter)


@functools.cache
def runtime(name: str) -> Runtime:
    """The runtime in the file `runtimes/<name>.py`."""
    return _load("runtimes", name, Runtime)


@functools.cache
def _variant_file(name: str) -> Variant:
    return _load("variants", name, Variant)


@dataclasses.dataclass(frozen=True)
class NamedVariant:
    """One option of a variant's file."""

    variant: Variant
    option: str


@functools.cache
def variants() -> dict[str, NamedVariant]:
    """Every variant by name: the file's, or `<file>-<option>`."""
    found = {}
    for name in find("variants"):
        with contextlib.suppress(PluginError):  # it cannot be used; `bench list` says why, and the others go on
            for option in _variant_file(name).options:
                found[f"{name}-{option}" if option else name] = NamedVariant(_variant_file(name), option)
    return found


def variant(name: str) -> NamedVariant:
    """The variant of that name.

    Raises:
        InputError: there is none; the message names the nearest.
    """
    if name not in variants():
        if name in find("variants"):
            _variant_file(name)  # raises what is wrong with the file
        raise InputError(f"no variant named {name!r}; {suggest(name, variants())}")
    return variants()[name]


def forget() -> None:
    """Look for everything anew at the next call: the search path has changed."""
    for cached in (find, _load_module, task, exporter, runtime, _variant_file, variants, digest_code):
        cached.cache_clear()


def dataset_path(name: str) -> Path:
    """The file `datasets/<name>/dataset.py`."""
    return _path("datasets", "dataset", name)


def task_path(name: str) -> Path:
    """The file `models/<name>/task.py`."""
    return _path("models", "task", name)


def _path(kind: str, what: str, name: str) -> Path:
    found = find(kind)
    if name not in found:
        raise InputError(f"no {what} named {name!r}; {suggest(name, found)}")
    return found[name]


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else "there are: " + (", ".join(known) or "none")


def skip_reason(cell: Cell) -> str | None:
    """Why a cell cannot run on this machine, or None."""
    plugins: list[Plugin] = [exporter(cell.exporter), runtime(cell.runtime), task(cell.task)]
    plugins += [variant(name).variant for name in cell.chain]
    for plugin in plugins:
        try:
            reason = plugin.skip()
        except Exception as error:
            raise PluginError(f"{plugin.path}: skip() raised {type(error).__name__}: {error}") from error
        if reason is not None:
            return f"{plugin.name}: {reason}"
    refusal = exporter(cell.exporter).refusal(task(cell.task))
    return f"{cell.exporter}: {refusal}" if refusal else None


INTERFACE = ("api", "cache", "errors", "openvino_profile", "ort_precision", "ort_profile", "placement", "plugins")
"""Modules that plugins import for what they promise, which a change inside them does not change; or for what is told
beside the figures."""


@functools.cache
def digest_code(path: Path) -> str:
    """SHA-256 over a plugin's file and the modules of this package that it imports, directly or through others."""
    found = {path}
    waiting = [path]
    while waiting:
        new = _imported(waiting.pop()) - found
        found |= new
        waiting += new
    return digest_files([path, *sorted(found - {path})])


def _imported(path: Path) -> set[Path]:
    """Files of this package that a file imports; of `from package import module`, the module alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {_file_of(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = _file_of(node.module)
            found |= {_file_of(f"{node.module}.{alias.name}") or module for alias in node.names}
    return {file for file in found if file is not None}


def _file_of(module: str) -> Path | None:
    """The file of a module of this package that a plugin's result may depend on."""
    package, _, name = module.partition(".")
    if package != "bench" or not name or name in INTERFACE:
        return None
    place = PACKAGE.joinpath(*name.split("."))
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


def digest_files(paths: Iterable[Path], *, root: Path | None = None) -> str:
    """SHA-256 over names (from `root` on, or just their own) and contents of files, in sorted order."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        name = path.relative_to(root).as_posix() if root else path.name
        digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def digest_folder(folder: Path, *, without: tuple[str, ...] = ()) -> str:
    """SHA-256 over all files below a folder, but for compiled Python and those named `without` at its top."""
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    left_out = {folder / name for name in without}
    return digest_files([path for path in files if path not in left_out], root=folder)
