"""Requests about ONNX files that a user named: a child process reads the file, and this process never parses it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.api.errors import ChildError, InputError
from bench.api.files import refuse_special
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.pipeline.graph_files import GraphFile


def ask(verb: str, request: Callable[..., dict[str, Any]], file: GraphFile, **arguments: Any) -> dict[str, Any]:
    """The answer of a child process to a request about an ONNX file.

    Args:
        verb: what is done to the model, for the message of an error.
        request: a function of `bench.onnxfile.requests`.
        file: the file.
        **arguments: of that function, besides the path.

    Raises:
        InputError: the request failed; the message says why.
    """
    path, limits = str(file.path.absolute()), Limits.of(step_s=None, memory_bytes=None)
    try:
        return ask_once(request, timeout_s=limits.prepare_s, memory_bytes=limits.memory_bytes, path=path, **arguments)
    except ChildError as error:
        raise InputError(f"cannot {verb} {file.model}: {error.reason}") from error


def readable(path: Path) -> str:
    """The absolute path of an existing file, for a child process.

    Raises:
        InputError: there is no such file, or it is a folder or no regular file.
    """
    refuse_special(path)
    if not path.is_file():
        raise InputError(f"no such file: {path}" if not path.exists() else f"{path} is a folder, not a file")
    return str(path.absolute())
