"""A program that ends with this process: it runs under a keeper, which ends it and all that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from bench.measure import keeper
from bench.measure.process import ENDING_S
from bench.measure.scratch import Scratch

MOST_BYTES = 1 << 26
_RUN = "import os, sys; os.execv(sys.argv[1], sys.argv[1:-1])"
"""Replaces a worker by the program; its last argument is the keeper's, which a program does not take."""


def run(
    command: Sequence[str], *, limit_s: float, where: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end.

    Args:
        command: path of the program, and its arguments.
        limit_s: seconds after which it is ended.
        where: its working folder; an empty one that is removed after it by default.
        environment: its environment variables; those of this process by default.

    Returns:
        Its exit status, and the first `MOST_BYTES` of each of its outputs.

    Raises:
        subprocess.TimeoutExpired: it did not end in time.
    """
    lifeline, ours = os.pipe()
    reading, report = os.pipe()
    with Scratch() as folder, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", keeper.__file__, str(lifeline), str(report), str(folder / "kept")),
                    *(sys.executable, "-I", "-S", "-c", _RUN, *command),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                cwd=where or folder,
                env=environment,
                pass_fds=(lifeline, report),
                start_new_session=True,
            )
        finally:
            for descriptor in (lifeline, report):
                os.close(descriptor)
        try:
            code = process.wait(limit_s)
        finally:
            for descriptor in (ours, reading):  # without the first, the keeper ends what still runs
                os.close(descriptor)
            try:
                process.wait(ENDING_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return subprocess.CompletedProcess(command, code, stdout=_text(output), stderr=_text(errors))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MOST_BYTES).decode(errors="replace")
