"""A command of `bench` in this process: its workers are processes of their own all the same."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.cli import main
from bench.plugins import catalog
from support import quick_bench


def run_here(
    *arguments: str, folder: Path, environment: Mapping[str, str], stdout: Path, stderr: Path, quick: bool = False
) -> int:
    """Run a command to its end, and return its exit code.

    Args:
        arguments: those of the command line, without the command itself.
        folder: the working folder meanwhile.
        environment: variables besides those of this process.
        stdout, stderr: files for what it prints.
        quick: bursts of two inferences instead of the real ones.
    """
    with contextlib.ExitStack() as ended, pytest.MonkeyPatch.context() as patch:
        if quick:
            quick_bench.shorten(patch.setattr)
        for name, path in (("stdout", stdout), ("stderr", stderr)):
            patch.setattr(sys, name, ended.enter_context(path.open("w")))
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["bench", *arguments])
        for variable, value in environment.items():
            patch.setenv(variable, value)
        catalog.forget()  # the folders above may hold other plugins
        ended.callback(catalog.forget)
        with pytest.raises(SystemExit) as exit_:
            main.main()
    code = exit_.value.code or 0
    assert isinstance(code, int)
    return code
