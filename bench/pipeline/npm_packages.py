"""Installs the packages of npm that runtimes in JavaScript need, and removes them.

Each has the digest that the lock file holds, and no script of a package is run. They are moved to their place whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.api import files, npm
from bench.api.errors import ArtifactError
from bench.api.messages import LONGEST, shortened
from bench.measure import supervised_program
from bench.pipeline import installer

_LIMIT_S = 900
_NATIVE = ("darwin", "win32", "linux")
"""Folders of native libraries for systems, of which one is kept."""
_PROCESSORS = {"x86_64": "x64", "aarch64": "arm64"}
_ALWAYS_KEPT = ("package.json", "LICENSE*", "README*")
_READABLE = 0o755
"""Others than the one who installs them may run them."""
_LOCK, _UNDER_WAY = "lock", "under-way-"


def install() -> Path:
    """Install the packages of the lock file, if they are not there; return their folder.

    Raises:
        ArtifactError: npm is not installed, or fails.
    """
    place = npm.place()
    if _is_whole(place):
        return place
    program = shutil.which("npm")
    if program is None or npm.node() is None:
        raise ArtifactError("npm not installed; `apt-get install nodejs npm`, or what your system has for it")
    with _locked(place.parent):
        if not _is_whole(place):  # another process was sooner
            _install(program, place)
    return place


def _install(program: str, place: Path) -> None:
    for left in (place, *place.parent.glob(f"{_UNDER_WAY}*")):  # of a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_UNDER_WAY, dir=place.parent))
    try:
        for file in npm.FILES:
            shutil.copyfile(npm.LISTS / file, folder / file)
        command = [program, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        try:
            done = supervised_program.run(command, limit_s=_LIMIT_S, where=folder)
        except subprocess.TimeoutExpired:
            raise ArtifactError(f"npm took longer than {_LIMIT_S / 60:g} minutes") from None
        if done.returncode != 0:
            raise ArtifactError(f"npm failed: {shortened(' '.join(done.stderr.split()), LONGEST)}")
        _drop_other_systems(folder / "node_modules")
        _drop_unneeded(folder / "node_modules")
        folder.chmod(_READABLE)
        folder.rename(place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_all(*, dry_run: bool = False) -> int:
    """Remove the packages of this lock file and of former ones; return how many bytes that frees.

    Args:
        dry_run: whether nothing is removed, and only the bytes are counted.
    """
    return installer.removed([path for path in npm.PLACES.glob("*") if path.is_dir()], dry_run=dry_run)


def _is_whole(place: Path) -> bool:
    return (place / "node_modules").is_dir()


def _drop_other_systems(modules: Path) -> None:
    """Remove native libraries for other systems and processors than this one: most of what is downloaded."""
    own = _PROCESSORS.get(platform.machine(), platform.machine())
    for system in [path for path in modules.glob("*/bin/napi-v*/*") if path.is_dir()]:
        if system.name in _NATIVE and system.name != sys.platform:
            shutil.rmtree(system)
            continue
        for processor in (path for path in system.iterdir() if path.is_dir() and path.name != own):
            shutil.rmtree(processor)


def _drop_unneeded(modules: Path) -> None:
    """Remove the files that nothing here loads of packages that `package.json` lists under `keep`."""
    for name, patterns in json.loads((npm.LISTS / "package.json").read_text())["keep"].items():
        needed = {path for pattern in (*patterns, *_ALWAYS_KEPT) for path in (modules / name).glob(pattern)}
        for path in [path for path in (modules / name).rglob("*") if path.is_file() and path not in needed]:
            path.unlink()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes that would install the same packages."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = files.open_to_change(folder / _LOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
