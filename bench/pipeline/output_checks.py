"""What `Runtime.open` and `Session.run` return: checked while outputs are judged, never while anything is timed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Runtime, Session, Task
from bench.api.errors import PluginError
from bench.onnxfile.deferred import np


def opened(runtime: Runtime, artifact: Path, *, task: Task, **how: Any) -> Session:
    """An open session.

    Args:
        how: the further arguments of `Runtime.open`.

    Raises:
        PluginError: `open` returned something else.
    """
    session = runtime.open(artifact, task=task, **how)
    if not isinstance(session, Session):
        raise PluginError(
            f"{_file_of(runtime.open)}: open() returned {_kind(session)}; give an instance of a subclass of "
            "bench.api.Session"
        )
    return session


def outputs_of(session: Session, feeds: Arrays) -> Outputs:
    """The outputs of one inference.

    Raises:
        PluginError: they are no list of arrays.
    """
    outputs = session.run(feeds)
    if not isinstance(outputs, list | tuple):
        kind = _kind(outputs)
    elif others := [value for value in outputs if not isinstance(value, np.ndarray | np.generic)]:
        kind = f"{_kind(outputs)} with {_kind(others[0])}"
    else:
        return outputs
    raise PluginError(
        f"{_file_of(session.run)}: run() returned {kind}; give a list of NumPy arrays, one for each output"
    )


def _file_of(method: Callable[..., object]) -> str:
    """The name of the file that defines a method; of a method without Python code, that of its module."""
    function = inspect.unwrap(method)
    code = getattr(function, "__code__", None)
    return Path(code.co_filename).name if code is not None else str(function.__module__)


def _kind(value: object) -> str:
    """A value's type with its article: `a dict`, `an array`; or `None`."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name.startswith(tuple('aeiouAEIOU')) else 'a'} {name}"
