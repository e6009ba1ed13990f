"""The entry point: it heeds signals before anything large is imported, runs a command, and says how each ends."""

from __future__ import annotations

import sys

from bench.cli.stopping import Stopped, Stopping

TYPE_CHECKING = False  # as in `typing`, which is imported once signals are heeded
if TYPE_CHECKING:
    from typing import Any


def main() -> None:
    """Run a command; a known error becomes one line and exit code 2, SIGINT one line and 130, SIGTERM one and 143."""
    stopping = Stopping(keeps=sys.argv[1:2] == ["run"])
    try:
        with stopping:
            code = _run(stopping)
    except Stopped:
        stopping.end()
    stopping.leave(code)


def __getattr__(name: str) -> Any:
    """`app`, the app of all commands, whose modules are imported when it is asked for."""
    if name != "app":
        raise AttributeError(name)
    from bench.cli import commands

    return commands.app


def _run(stopping: Stopping) -> Any:
    from bench.cli import streams

    with streams.guarded():
        return _code(stopping)


def _code(stopping: Stopping) -> Any:
    import typer

    from bench.api import containment
    from bench.api.errors import BenchError
    from bench.cli import commands, options

    # What Typer raises at wrong usage. It exports the one class only, and has the others from click or from itself.
    usage_error: type[Exception] = typer.BadParameter.__mro__[2]
    try:
        return commands.app(standalone_mode=False, obj=stopping)
    except BenchError as error:
        options.say(str(error))
    except usage_error as error:
        options.say(error.format_message() or "no command given; `bench --help` lists them")  # type: ignore[attr-defined]
    except BrokenPipeError:
        return 0
    except OSError as error:  # a cache or a pipe that cannot be written, or a model that cannot be read
        options.say(_os_line(error))
    except BaseException as error:  # code of a plugin raised what is no `Exception`, where it was asked for something
        if isinstance(error, Exception) or containment.is_stop(error):
            raise
        if isinstance(error.__context__, BrokenPipeError):  # the packages that print help leave in this way
            return 0
        options.say(containment.description(error))
    return 2


def _os_line(error: OSError) -> str:
    from bench.api import cache
    from bench.api.messages import FULL_DISK, is_full_disk

    if is_full_disk(error):
        return FULL_DISK
    if not error.filename:
        return str(error)
    fix = " (BENCH_CACHE can name another folder)" if str(error.filename).startswith(str(cache.folder())) else ""
    return f"cannot use {error.filename}: {error.strerror}{fix}"
