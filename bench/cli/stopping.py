"""SIGINT and SIGTERM: at any moment of a command, its work stops, and it ends with one line and the signal's exit code.

A signal raises `Stopped` in the main thread. That exception can be lost, in a finalizer or in code that catches
everything, and a call of C code can take long; so a thread of its own ends the process if the command does not.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading

TYPE_CHECKING = False  # as in `typing`, which is imported once signals are heeded
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import NoReturn

LATEST_S = 1.0
"""Time in which a command ends by itself; keepers end the children of a command that did not."""
_LAST_WORDS_S = 20.0
"""Time in which a command that has last words, such as a table of what it has measured, ends by itself."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = "\x1b[?25h"


class Stopped(BaseException):
    """The command is to stop. It is no `KeyboardInterrupt`, for which Typer prints an empty line."""

    stops_the_command = True
    """See `bench.api.containment.is_stop`, which cannot import this class."""


class Stopping:
    """Heeds the signals while it is used as a context manager, in the main thread.

    Args:
        keeps: whether the command is known to store launches, so that the same command goes on from these.

    Attributes:
        keeps: the same; the command sets it where the entry point does not know.
        num_kept: number of launches that the command has stored.
        at_once: whether the process is to end without Python's own end, because threads of it are in C code that does
            not bear that.
    """

    def __init__(self, *, keeps: bool = True) -> None:
        self.keeps = keeps
        self.num_kept = 0
        self.at_once = False
        self._unfreed: object = None
        self._number = 0
        self._held = 0
        self._has_last_words = False
        self._wake: int | None = None
        self._ending = threading.Lock()

    def __enter__(self) -> Stopping:
        if threading.current_thread() is threading.main_thread():  # no other may set handlers
            woken, self._wake = os.pipe()
            os.set_blocking(self._wake, False)
            signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
            threading.Thread(target=self._watch, args=(woken,), daemon=True).start()
            sys.unraisablehook = _without_stops
            for number in _SIGNALS:
                signal.signal(number, self._came)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:  # a command that is over ends with its own exit code, and without a traceback
                signal.signal(number, signal.SIG_IGN)
            signal.set_wakeup_fd(-1)
        if self._number and kind is not Stopped:  # its exception was lost
            raise Stopped
        if self._wake is not None and not self._number:
            os.close(self._wake)

    def _came(self, number: int, _: FrameType | None) -> None:
        if self._number and self._has_last_words:  # the second: they are not wanted
            self.end()
        if not self._number:  # else it is heeded already
            self._number = number
            if not self._held:
                raise Stopped

    def _watch(self, woken: int) -> None:
        """End the process some time after a signal, if it still runs."""
        while (number := next(iter(os.read(woken, 1)), 0)) not in _SIGNALS:
            if not number:  # the command is over
                os.close(woken)
                return
        threading.Event().wait(LATEST_S)
        if self._has_last_words:  # until a second signal, which the main thread may not see
            select.select([woken], [], [], _LAST_WORDS_S)
        self._number = self._number or number
        self.end()

    @contextlib.contextmanager
    def last_words(self) -> Iterator[None]:
        """Have some time after a signal that comes in the `with` block, to tell what is done; a second ends it."""
        self._has_last_words = True
        try:
            yield
        finally:
            self._has_last_words = False

    @contextlib.contextmanager
    def keeping(self, num_launches: int) -> Iterator[None]:
        """Let no signal interrupt the statements in the `with` block, which store launches, and count the launches."""
        self._held += 1
        try:
            yield
            self.num_kept += num_launches
        finally:
            self._held -= 1
        if self._number:
            raise Stopped

    def leave_unfreed(self, things: object) -> None:
        """Free things no more, such as 100,000 records, which takes a second: the process ends with them."""
        self._unfreed = things
        self.at_once = True

    def end(self) -> NoReturn:
        """Say that the command was stopped and what it kept, and end the process with the exit code of the signal."""
        with self._ending:
            launches = "1 launch" if self.num_kept == 1 else f"{self.num_kept} launches"
            cursor = _SHOW_CURSOR if os.isatty(2) else ""
            remark = f"; {launches} kept; the same command goes on" if self.keeps else ""
            line = f"{cursor}bench: stopped{remark}\n"
            with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
                sys.stdout.flush()
            with contextlib.suppress(OSError):
                os.write(2, line.encode())
            os._exit(128 + self._number)

    def leave(self, code: int | None) -> NoReturn:
        """End the process with an exit code; None is 0."""
        if self.at_once:
            for stream in filter(None, (sys.stdout, sys.stderr)):
                with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
                    stream.flush()
            os._exit(code or 0)
        sys.exit(code)


def _without_stops(unraisable: sys.UnraisableHookArgs) -> None:
    """Tell of an exception that Python cannot raise, but not of a `Stopped`."""
    if unraisable.exc_type is not Stopped:
        sys.__unraisablehook__(unraisable)
