"""Plugins are files: listed by filename, loaded by path.

A folder on the search path may hold `exporters/ variants/ runtimes/` (one file for each plugin) and `models/ datasets/`
(one folder for each). The path is `$BENCH_PATH` (folders joined by `:`), the working folder, the checkout that holds
this package if there is one, and the package's own `plugins/`; the first folder that has a plugin of a name wins.
"""

import functools
import hashlib
import importlib.util
import os
import sys
import threading
from pathlib import Path
from types import ModuleType

from bench.api import errors, frames
from bench.api.containment import contained
from bench.api.errors import InputError, PluginError

PACKAGE = Path(__file__).resolve().parents[1]
PLUGINS = PACKAGE / "plugins"
ENTRY = {"models": "task.py", "datasets": "dataset.py"}
"""The file that makes a folder a plugin, by kind; plugins of the other kinds are single files."""
IN_REPOSITORY = "in the repository: git clone it, and run `make install` there"
"""Why an installed package does not have the reference models."""

_LOADING = threading.RLock()


def checkout() -> Path | None:
    """The top of the checkout that this package runs from, or None for an installed package.

    Beside an installed package lie those of others, whose folders `models/` and `datasets/` hold no plugins.
    """
    return None if _listing().is_file() else PACKAGE.parent


def in_repository(kind: str) -> tuple[str, ...]:
    """Names of the `models` or `datasets` that the repository has and this installed package cannot find, sorted."""
    listed = _listing().read_text(encoding="utf-8").splitlines() if checkout() is None else []
    names = [name for folder, _, name in (line.partition("/") for line in listed) if folder == kind]
    return tuple(name for name in names if name not in find(kind))


def _listing() -> Path:
    """The file that `setup.py` writes into a wheel: a line for each model and data set of the repository."""
    return PACKAGE / "api" / "in_repository.txt"


def suggest(kind: str, name: str) -> str:
    """The end of a message about an unknown plugin: where it is, the nearest known name, or all of them."""
    return IN_REPOSITORY if name in in_repository(kind) else errors.suggest(name, find(kind))


def search_path() -> tuple[Path, ...]:
    """Folders that may hold plugins, first to last.

    Raises:
        InputError: `$BENCH_PATH` names a folder that does not exist.
    """
    named = [Path(folder) for folder in os.environ.get("BENCH_PATH", "").split(os.pathsep) if folder]
    for folder in named:
        if not folder.is_dir():
            raise InputError(f"BENCH_PATH names a folder that does not exist: {folder}")
    top = checkout()
    folders = [*named, Path.cwd(), *([top] if top else []), PLUGINS]
    return tuple(dict.fromkeys(folder.resolve() for folder in folders))


@functools.cache
def find(kind: str) -> dict[str, Path]:
    """Files of one kind (`exporters`, `variants`, `runtimes`, `models` or `datasets`) by the plugin's name, sorted."""
    pattern = f"*/{ENTRY[kind]}" if kind in ENTRY else "*.py"
    paths: dict[str, Path] = {}
    for folder in search_path():
        for path in (folder / kind).glob(pattern):
            name = path.parent.name if kind in ENTRY else path.stem
            if not name.startswith("_"):
                paths.setdefault(name, path)
    return dict(sorted(paths.items()))


def load_module(path: Path) -> ModuleType:
    """Execute the Python file at `path` as a module of its own; a second call returns the same module.

    Raises:
        PluginError: the file is missing, or raises or would end the command while it is executed.
    """
    with _LOADING:  # two threads that prepare cells at once must not execute a file twice
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
        with contained(path, "its code"):
            spec.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(name, None)
        if isinstance(error, PluginError) or not isinstance(error, Exception):
            raise
        raise PluginError(f"cannot load {path}: {frames.description(error)}") from error
    return module


def dataset_path(name: str) -> Path:
    """The file `datasets/<name>/dataset.py`.

    Raises:
        InputError: no folder on the search path has it; the message says where it is, or names the nearest.
    """
    return path_of("datasets", name, what="dataset")


def task_path(name: str) -> Path:
    """The file `models/<name>/task.py`.

    Raises:
        InputError: no folder on the search path has it; the message says where it is, or names the nearest.
    """
    return path_of("models", name, what="task")


def path_of(kind: str, name: str, *, what: str) -> Path:
    """The file of a plugin, by the kind of folder it lies in.

    Args:
        what: the word for such a plugin in the message.

    Raises:
        InputError: there is no plugin of that name; the message suggests the nearest name.
    """
    paths = find(kind)
    if name not in paths:
        raise InputError(f"no {what} named {name!r}; {suggest(kind, name)}")
    return paths[name]
