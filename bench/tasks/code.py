"""Executes the Python files that a user names, and lists the files that they import."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

from bench.api.loading import load_module


def load(path: Path) -> ModuleType:
    """The executed module of a Python file, which can import the files beside it, as when Python runs it.

    Raises:
        PluginError: the file is missing or raises while it is executed.
    """
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    return load_module(path)


def imported_from(folder: Path) -> list[Path]:
    """The Python files below a folder that this process has imported, sorted."""
    named = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    # Some packages state a file that does not exist.
    files = [Path(file).resolve() for file in named if file and Path(file).is_file()]
    return sorted(file for file in files if file.is_relative_to(folder))
