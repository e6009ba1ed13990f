"""Folders in memory for the files of one case."""

from __future__ import annotations

import contextlib
import functools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import jinja2

from fuzz.models import DATA, DATA_FILE

MEMORY = Path("/dev/shm")


@functools.cache
def _codes() -> dict[tuple[object, ...], Any]:
    """The code of each template that was compiled in this process."""
    return {}


@contextlib.contextmanager
def compiled_once() -> Iterator[None]:
    """Compile each template once in a process, for that takes most of the time of a page."""
    compile_, codes = jinja2.Environment.compile, _codes()

    def compiled(environment: jinja2.Environment, source: Any, *names: Any, **named: Any) -> Any:
        key = (source, environment.autoescape, *names)
        if key not in codes:
            codes[key] = compile_(environment, source, *names, **named)
        return codes[key]

    with mock.patch.object(jinja2.Environment, "compile", compiled):
        yield


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """An empty folder, in memory where the system has such a place; it is gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="fuzz-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def model_file(content: bytes) -> Iterator[Path]:
    """A file `model.onnx` with a file of external data beside it, in a folder of its own."""
    with folder() as path:
        (path / DATA_FILE).write_bytes(DATA)
        (path / "model.onnx").write_bytes(content)
        yield path / "model.onnx"
