"""Packages of npm, for runtimes in JavaScript: those of a lock file, beside the packages of this Python environment.

A runtime names one in its `requires` as `npm:onnxruntime-node`; `bench.pipeline.npm_packages` installs them.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.api import cache

LISTS = Path(__file__).parents[1] / "plugins" / "engines" / "node"
"""The folder of `package.json` and `package-lock.json`."""
FILES = ("package.json", "package-lock.json")
PLACES = Path(sys.prefix, "share", "inferometer", "npm")
"""Where the packages of each lock file have a folder."""
FOLDER = "INFEROMETER_NPM"
"""Variable that names the folder of the packages to a worker, which may run in another environment."""


def node() -> str | None:
    """The path of Node.js; None where it is not installed."""
    return shutil.which("node")


@functools.cache
def node_version() -> str:
    """The version of Node.js; empty where it is not installed."""
    program = node()
    if program is None:
        return ""
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip()


def files() -> list[Path]:
    """The lists of packages, and the programs beside them."""
    return [path for path in LISTS.iterdir() if path.suffix in (".json", ".mjs")]


def folder() -> Path:
    """Where the packages of the lock file are: where the variable says, or in their place."""
    return Path(os.environ.get(FOLDER) or place())


@functools.cache
def place() -> Path:
    """Where the packages of the lock file are installed to."""
    digest = cache.digest_files(LISTS / name for name in FILES)
    return PLACES / digest[:16]


def version(name: str) -> str | None:
    """The version of a package, without `npm:`; None where it is not installed."""
    try:
        return str(json.loads((folder() / "node_modules" / name / "package.json").read_text())["version"])
    except (OSError, ValueError, KeyError):
        return None


def lacking(names: list[str]) -> str | None:
    """Why some packages cannot be used, with the command that mends it; None where they can."""
    if node() is None:
        return "Node.js not installed; `apt-get install nodejs npm`, or what your system has for it"
    missing = [name for name in names if version(name) is None]
    return f"{', '.join(missing)} not installed; `bench install npm`" if missing else None
