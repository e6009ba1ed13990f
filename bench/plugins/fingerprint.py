"""Digests of a plugin's code."""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from bench.api.loading import (
    PACKAGE,
)

INTERFACE = (
    "api",
    "api.cache",
    "api.cell",
    "api.errors",
    "api.loading",
    "api.plugin",
    "plugins.catalog",
    "plugins.engines.onnxruntime.placement",
    "plugins.engines.onnxruntime.precision",
    "plugins.engines.onnxruntime.profile",
    "plugins.engines.openvino.profile",
)
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
