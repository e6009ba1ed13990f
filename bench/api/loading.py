"""Plugins are files: listed by filename, loaded by path.

A folder on the search path may hold `exporters/ variants/ runtimes/` (one file a plugin) and `models/ datasets/` (one
folder each). The search path is `$BENCH_PATH` (folders joined by `:`), the working folder, the checkout that holds this
package, and the package's own `plugins/`; the first folder that has a name wins.
"""

import functools
import hashlib
import importlib.util
import os
import sys
import threading
from pathlib import Path
from types import ModuleType

from bench.api.errors import InputError, PluginError, suggest

PACKAGE = Path(__file__).parents[1]
PLUGINS = PACKAGE / "plugins"


_LOADING = threading.RLock()


ENTRY = {"models": "task.py", "datasets": "dataset.py"}


def search_path() -> tuple[Path, ...]:
    """Folders that may hold plugins, first to last."""
    named = [Path(folder) for folder in os.environ.get("BENCH_PATH", "").split(os.pathsep) if folder]
    for folder in named:
        if not folder.is_dir():
            raise InputError(f"BENCH_PATH names a folder that does not exist: {folder}")
    folders = [*named, Path.cwd(), PACKAGE.parent, PLUGINS]
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


def dataset_path(name: str) -> Path:
    """The file `datasets/<name>/dataset.py`."""
    return path_of("datasets", name, what="dataset")


def task_path(name: str) -> Path:
    """The file `models/<name>/task.py`."""
    return path_of("models", name, what="task")


def path_of(kind: str, name: str, *, what: str) -> Path:
    """The file of a plugin, by the kind of folder it lies in.

    Args:
        what: the word for such a plugin in the message.

    Raises:
        InputError: there is no plugin of that name; the message suggests the nearest name.
    """
    found = find(kind)
    if name not in found:
        raise InputError(f"no {what} named {name!r}; {suggest(name, found)}")
    return found[name]
