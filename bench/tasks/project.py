"""The place of a file in the project that it belongs to, which is the same in every checkout of the project.

A project is what git calls a repository, by the address that it was cloned from, and what git tracks belongs to it: a
file that only lies in a checkout may be anything.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

_SCP = re.compile(r"(?:[^/@:]+@)?([^/@:]+):(.+)")
"""An address as scp has it, such as `git@example.org:team/net.git`."""

_TIMEOUT_S = 10
"""In which git has answered, or the file belongs to no project."""


def place_in_project(path: Path) -> str | None:
    """Where the project comes from, and the path of one of its files or folders from its top on.

    Returns:
        Such as `example.org/team/net:export/model.onnx`; None where git tracks no such file, or is not installed, or
        where the project was not cloned from an address.
    """
    near = Path(os.path.abspath(path)).parent  # noqa: PTH100 (a link belongs to the project, wherever it leads)
    origin = _origin(_git(near, "config", "--get", "remote.origin.url") or "")
    if origin is None or not _git(near, "ls-files", "--", path.name):
        return None
    prefix = _git(near, "rev-parse", "--show-prefix")
    return None if prefix is None else f"{origin}:{prefix}{path.name}"


def _origin(address: str) -> str | None:
    """An address without what differs between ways to the same repository, and without passwords."""
    if "://" in address:
        try:
            parts = urlsplit(address)
            host, path = parts.hostname or "", parts.path
        except ValueError:
            return None
    elif match := _SCP.fullmatch(address):
        host, path = match[1].lower(), match[2]
    elif Path(address).is_absolute():
        host, path = "", address
    else:  # none, or a path from the checkout on
        return None
    return f"{host}/{path.strip('/').removesuffix('.git')}"


def _git(folder: Path, *arguments: str) -> str | None:
    """What a git command prints in a folder, without the line's end; None if it fails.

    Commands that read the index run the program that a repository names for its monitor, and the repository may be a
    stranger's.
    """
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", "--literal-pathspecs", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else os.fsdecode(done.stdout).rstrip("\n")
