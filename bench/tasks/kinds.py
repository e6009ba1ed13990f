"""Which format a model has: told by names of files alone, nothing is opened."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from bench.api.errors import InputError
from bench.tasks import formats
from bench.tasks.formats import Format


@functools.cache
def known() -> Mapping[str, Format]:
    """The formats that have a file in `bench/tasks/formats/`, by the module's name."""
    names = sorted(module.name for module in pkgutil.iter_modules(formats.__path__))
    found = {name: importlib.import_module(f"{formats.__name__}.{name}").FORMAT for name in names}
    return MappingProxyType(found)


def allowed() -> str:
    """What `--model` takes: the end of a message."""
    return f"--model takes {', '.join(found.described for found in known().values())}, or a folder with a task.py"


def format_of(path: Path) -> str:
    """The format of a file, or of a folder without a `task.py`, as a key of `known()`.

    Raises:
        InputError: the path does not exist, or its format cannot be measured; the message says which can.
    """
    if not path.exists():
        raise InputError(f"no such file or folder: {path}; {allowed()}")
    if not path.is_file() and not path.is_dir():
        raise InputError(f"{path} is neither a file nor a folder; {allowed()}")
    name = next((name for name, found in known().items() if found.matches(path)), None)
    if name is None and path.is_dir():
        *first, last = ("task.py", *(found.marker for found in known().values() if found.marker is not None))
        raise InputError(f"no {', '.join(first)} or {last} in {path}; {allowed()}")
    if name is None:
        raise InputError(f"{path} is of no kind that can be measured; {allowed()}")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path} is empty")
    if reason := known()[name].refusal(path):
        raise InputError(reason)
    return name
