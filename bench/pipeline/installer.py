"""Makes Python environments with uv.

uv resolves in a second and shares files between environments by hard links. It reads no configuration of pip, so
indexes, links and certificates that pip was given are handed on. Nothing is built: packages come as wheels.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench.api import cache
from bench.api.errors import ArtifactError
from bench.api.messages import LONGEST, shortened
from bench.measure import supervised_program

PIP = (sys.executable, "-I", "-m", "pip")
"""pip, whatever lies in the working folder."""
LIMIT_S = 1800
"""Time for a download of gigabytes."""
_UNSOLVED = "No solution found when resolving dependencies"
_UNSATISFIABLE = ", we can conclude that your requirements are unsatisfiable."
_RETRIED = re.compile(r"Request failed after \d+ retries in [\d.]+s")
_HOST = re.compile(r"(https?)://[^/\s)`']+")
_UNWRAPPED = "10000"
"""Characters of a line, in which uv then writes a whole sentence."""
NO_INDEX = "INFEROMETER_NO_INDEX"
"""Stands for pip's `no-index` among uv's variables: uv has an option alone."""
MUCH_BYTES = 10**9
"""Downloads from this size on are asked for with `--yes`."""


def folder() -> Path:
    """Where environments and downloads are kept."""
    return cache.folder() / "environments"


def resolved(requirements: Sequence[str], constraints: Sequence[str], python: str) -> str:
    """Which packages are to be installed: a lock file as `pylock.toml` has it.

    Args:
        requirements: as pip takes them.
        constraints: further requirements on packages that are installed for others.
        python: path of the interpreter.

    Raises:
        ArtifactError: no versions fit, or an index cannot be reached; the message says which.
    """
    with tempfile.TemporaryDirectory(prefix="inferometer-") as name:
        place = Path(name)  # away from the checkout, whose own settings of uv are not for this
        (place / "in.txt").write_text("\n".join(requirements))
        (place / "constraints.txt").write_text("\n".join(constraints))
        options = ["--python", python, "--only-binary", ":all:", "--no-header", "--quiet", "--format", "pylock.toml"]
        target = place / "pylock.toml"
        _run([_uv(), "pip", "compile", "in.txt", "-c", "constraints.txt", *options, "-o", str(target)], place)
        return target.read_text(encoding="utf-8")


def make(lock: str, target: Path, python: str) -> None:
    """Make an environment with the packages of a lock that `resolved` returned.

    Raises:
        ArtifactError: a package cannot be installed; the message says which.
    """
    _run([_uv(), "venv", "--quiet", "--no-project", "--python", python, str(target)], target.parent)
    pinned = target / "pylock.toml"
    pinned.write_text(lock, encoding="utf-8")
    options = ["--quiet", "--no-deps", "--link-mode", "hardlink", "--python", str(program(target))]
    _run([_uv(), "pip", "install", *options, "-r", str(pinned)], target.parent)


def removed(places: Iterable[Path], *, dry_run: bool) -> int:
    """Remove folders and files; return how many bytes that frees, a file of several links counted once.

    Args:
        dry_run: whether nothing is removed, and only the bytes are counted.
    """
    places = list(places)
    paths = [path for place in places for path in (place, *place.rglob("*"))]
    sizes = {(stat.st_dev, stat.st_ino): stat.st_size for stat in (path.lstat() for path in paths)}
    for place in () if dry_run else places:  # what cannot be removed is an error, and not said to be freed
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()
    return sum(sizes.values())


def program(environment: Path) -> Path:
    """The interpreter of an environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def check_size(lock: str, *, may_be_large: bool, allowed_by: str = "--yes") -> None:
    """Refuse a lock whose packages take gigabytes to download.

    Raises:
        ArtifactError: they do, and nobody said yes to that; the message has the size and the largest package.
    """
    sizes = _sizes(lock)
    if sum(sizes.values()) >= MUCH_BYTES and not may_be_large:
        largest = max(sizes, key=lambda name: sizes[name])
        whole, part = (f"{size / 1e9:.1f} GB" for size in (sum(sizes.values()), sizes[largest]))
        raise ArtifactError(f"it takes a download of {whole}, {part} of it {largest}; {allowed_by} allows that")


def _sizes(lock: str) -> Mapping[str, int]:
    """Bytes to download of each package; a wheel on this machine takes none."""
    packages = tomllib.loads(lock).get("packages", ())
    return {
        package["name"]: max((wheel.get("size", 0) for wheel in package.get("wheels", ()) if "url" in wheel), default=0)
        for package in packages
    }


def _uv() -> str:
    """The path of the program uv.

    Raises:
        ArtifactError: the package uv is not installed, or lacks its program.
    """
    try:
        from uv import find_uv_bin  # only here: no other command needs it

        return find_uv_bin()
    except (ImportError, FileNotFoundError) as error:
        raise ArtifactError("other versions are installed with uv, which is missing here; `pip install uv`") from error


@functools.cache
def _settings() -> Mapping[str, str]:
    """The environment variables that hand pip's settings on to uv."""
    try:
        listed = supervised_program.run([*PIP, "config", "list"], limit_s=60).stdout
    except subprocess.TimeoutExpired:
        listed = ""
    return {name: value for name, value in handed_on(listed).items() if name not in os.environ}


def handed_on(listed: str) -> dict[str, str]:
    """Variables of uv that stand for pip's indexes, links and certificates; `NO_INDEX` is none of uv's, see `_run`.

    Args:
        listed: what `pip config list` printed; a variable of the environment comes after the files that it overrides.
    """
    settings = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        if pair := re.fullmatch(r"""(?:global|install|user|site|:env:)\.([\w-]+)=('.*'|".*")""", line):
            with contextlib.suppress(ValueError, SyntaxError):  # a value may have lines, which are printed as in Python
                settings[pair[1]] = str(ast.literal_eval(pair[2]))
    variables = {
        "UV_DEFAULT_INDEX": settings.get("index-url", ""),
        "UV_INDEX": " ".join(filter(_is_there, settings.get("extra-index-url", "").split())),
        "UV_FIND_LINKS": ",".join(map(_absolute, filter(_is_there, settings.get("find-links", "").split()))),
        "UV_INSECURE_HOST": settings.get("trusted-host", ""),
        NO_INDEX: "1" if settings.get("no-index", "").lower() in ("1", "true", "yes", "on", "t", "y") else "",
        "SSL_CERT_FILE": settings.get("cert", ""),
    }
    always = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_PYTHON_DOWNLOADS": "never"}  # as pip does
    return {**always, **{name: value for name, value in variables.items() if value}}


def _is_there(place: str) -> bool:
    """Whether a place is on the network, or is a folder that exists: pip ignores others, uv does not."""
    local = place.removeprefix("file://")
    return "://" in local or Path(local).exists()


def _absolute(place: str) -> str:
    """A folder by its whole path, because uv runs in a folder of its own."""
    return place if "://" in place else str(Path(place).absolute())


def _run(command: Sequence[str], where: Path) -> None:
    settings = _settings()
    environment = {**os.environ, **settings, "UV_CACHE_DIR": str(folder() / "downloads"), "COLUMNS": _UNWRAPPED}
    if NO_INDEX in settings and command[1:2] == ["pip"]:
        command = [*command, "--no-index"]
    try:
        done = supervised_program.run(command, limit_s=LIMIT_S, where=where, environment=environment)
    except subprocess.TimeoutExpired:
        raise ArtifactError(f"{Path(command[0]).name} took more than {LIMIT_S} s") from None
    if done.returncode:
        raise ArtifactError(reason_of(done.stderr))


def reason_of(output: str) -> str:
    """Why an installer failed, from what it printed, in a line: the error and its causes, without hints and hosts.

    The name of a package says which it is, and the host of a private index is not for others who read the results.
    """
    reasons: list[str] = []
    for line in map(str.strip, output.splitlines()):
        kind, mark, text = line.partition(":")
        if mark and kind.lower() in ("error", "cause") and text.strip() != _UNSOLVED:
            reasons.append(text.strip().removesuffix(_UNSATISFIABLE))
        elif line.startswith("hint"):
            break
    text = ": ".join(reasons or output.strip().splitlines()[-1:]) or "it said nothing"
    text = _HOST.sub(r"\1://...", _RETRIED.sub("the package index cannot be reached", text))
    return shortened(text, LONGEST)
