"""Code of plugins and tasks that would end the command: it may raise `SystemExit` or call `os._exit`, and is refused.

Whatever is no `Exception` passes all that handles errors, and would end the command or a worker without a word on which
file it was. SIGINT and SIGTERM go on to stop the command.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

from bench.api import frames
from bench.api.errors import PluginError
from bench.api.frames import PACKAGE

_LEAVE = os._exit
_INSIDE = threading.local()


class _Exit(SystemExit):
    """A call of `os._exit`."""


def is_stop(error: BaseException) -> bool:
    """Whether an exception is how a signal stops the command: see `bench.cli.stopping`, or Python's own Ctrl-C."""
    if getattr(error, "stops_the_command", False):
        return True
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@contextlib.contextmanager
def contained(path: Path, doing: str) -> Iterator[None]:
    """Refuse what would end the process in the `with` block, which runs code of a plugin's file.

    Args:
        path: the file.
        doing: what the code is, as the message says it, such as `skip()`.

    Raises:
        PluginError: the code raised something that is no `Exception`, or called `os._exit`.
    """
    os._exit = _refuse_to_leave  # type: ignore[assignment]
    before, _INSIDE.process = getattr(_INSIDE, "process", None), os.getpid()
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if is_stop(error):
            raise
        raise PluginError(f"{path}: {doing} {_what(error)}") from error
    finally:
        _INSIDE.process = before


@contextlib.contextmanager
def reported(path: Path, doing: str) -> Iterator[None]:
    """As `contained`, where an exception becomes a sentence, too: with the file, and the line that raised it.

    Raises:
        PluginError: the code raised something, or called `os._exit`.
    """
    try:
        with contained(path, doing):
            yield
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(f"{path}: {doing} raised {frames.description(error)}") from error


def _refuse_to_leave(status: int) -> None:
    """`os._exit`, but for the code that is contained: other threads, and processes that it forked, may leave."""
    if getattr(_INSIDE, "process", None) == os.getpid():
        raise _Exit(status)
    _LEAVE(status)


def description(error: BaseException) -> str:
    """Which file raised what is no `Exception`, in a sentence: of the traceback, the last file that is none of ours."""
    places: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        code: CodeType = trace.tb_frame.f_code
        if not Path(code.co_filename).resolve().is_relative_to(PACKAGE):
            places.append(f"{code.co_filename}, line {trace.tb_lineno}: {code.co_name}")
        trace = trace.tb_next
    return f"{places[-1] if places else 'code of a plugin'} {_what(error)}"


def _what(error: BaseException) -> str:
    """What the code did, such as `raised SystemExit: 3, which would end the command`."""
    try:
        text = " ".join(str(error).split())
    except BaseException:  # its own code says what it is
        text = ""
    if isinstance(error, _Exit):
        return f"called os._exit({text}), which would end the command"
    return f"raised {type(error).__name__}{': ' if text else ''}{text}, which would end the command"
