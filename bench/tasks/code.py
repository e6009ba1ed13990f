"""Python files that a user names: executed, and which files they import."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from bench.api.loading import load_module

if TYPE_CHECKING:
    pass


def load(path: Path) -> ModuleType:
    """The file, executed; what lies beside it can be imported, as when Python runs it."""
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    return load_module(path)


def imported_from(folder: Path) -> list[Path]:
    """Python files of a folder that this process has loaded."""
    named = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    files = [
        Path(file).resolve() for file in named if file and Path(file).is_file()
    ]  # some packages name none there is
    return sorted(file for file in files if file.is_relative_to(folder))
