"""The Python environments in which plugins of other versions run, by the plugin's name in a cell.

A name such as `onnxruntime@1.22.0` is declared before it is used. What was declared is kept in the cache, so that later
commands find the environment of a stored cell, or make it again. An environment holds what its plugin and a worker
need, and nothing else; environments with the same packages are one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import os
import secrets
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from packaging.utils import canonicalize_name

from bench.api import cache, files
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, InputError
from bench.api.loading import PACKAGE
from bench.api.names import PluginName
from bench.measure.interpreter import OWN, Interpreter
from bench.pipeline import installer
from bench.pipeline.environment_request import Asked
from bench.pipeline.installed_packages import Installed, look_into

_WORKER = ("numpy",)
"""Distributions that a worker needs beside those of its plugin."""
_WHOLE = "whole"
"""The file that an environment has once all of its packages are installed."""
_GUARD = threading.RLock()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Environment:
    """An environment that is there.

    Attributes:
        interpreter: starts processes in it.
        installed: its packages.
    """

    interpreter: Interpreter
    installed: Installed


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What a name stands for, as the cache keeps it.

    Attributes:
        requirements: what the option asked for, as pip takes it; empty for an interpreter.
        others: further distributions that the plugin or a worker needs.
        python: path of the interpreter; empty where the environment is to be made.
        may_be_large: whether a download of gigabytes is allowed.
    """

    requirements: list[str]
    others: list[str]
    python: str
    may_be_large: bool = False


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """An environment that was made, as the cache keeps it.

    Attributes:
        digest: name of its folder, a digest of its packages.
        installed: its packages.
    """

    digest: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]+$")]
    installed: Installed


@functools.cache
def own() -> Installed:
    """The packages of this process's environment."""
    return look_into(sys.executable)


def declare(
    kind: str, plugin: PluginName, requires: Sequence[str], request: Asked, *, may_be_large: bool = False
) -> PluginName:
    """Give a plugin of another environment a name.

    Args:
        kind: `runtimes`, `exporters` or `variants`.
        plugin: the plugin's name in cells; a variant's with its option. A label that it has is replaced.
        requires: import names of the packages that it needs.
        request: what is other in the environment.
        may_be_large: see `Declared`.

    Returns:
        The plugin's name with a label.
    """
    needed = own().distributions(requires)
    name = dataclasses.replace(plugin, label=request.label(needed))
    others = [
        distribution for distribution in dict.fromkeys((*needed, *_WORKER)) if distribution not in request.requirements
    ]
    requirements = list(request.requirements.values())
    declared = Declared(requirements=requirements, others=others, python=request.python, may_be_large=may_be_large)
    place = _names() / kind / f"{name}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    files.write_whole(place, msgspec.json.encode(declared))
    return name


def names_of(cell: Cell) -> list[tuple[str, PluginName]]:
    """The plugins of a cell that run in another environment: kind and name."""
    parts = [("exporters", cell.exporter), *(("variants", name) for name in cell.chain), ("runtimes", cell.runtime)]
    return [(kind, name) for kind, name in parts if name.label]


def check_known(cell: Cell) -> None:
    """Ensure that it is known what the names of a cell's plugins of other environments stand for.

    Raises:
        InputError: it is not.
    """
    for kind, name in names_of(cell):
        try:
            _declared(kind, name)
        except ArtifactError as error:
            raise InputError(f"{name}: {error}") from error


def interpreter_of(kind: str, name: PluginName) -> Interpreter:
    """What starts the processes of a plugin.

    Raises:
        ArtifactError: see `of`.
    """
    return of(kind, name).interpreter if name.label else OWN


def versions_of(kind: str, name: PluginName, requires: Sequence[str]) -> dict[str, str | None]:
    """Versions of the packages that a plugin runs with, see `provenance.versions`.

    Raises:
        ArtifactError: see `of`.
    """
    return of(kind, name).installed.versions(requires)


_FAILED: dict[tuple[str, PluginName], ArtifactError] = {}
_MADE: dict[tuple[str, PluginName], Environment] = {}


def of(kind: str, name: PluginName) -> Environment:
    """The environment of a name, made now if the cache does not have it.

    Args:
        kind: `runtimes`, `exporters` or `variants`.
        name: a plugin's name with a label.

    Raises:
        ArtifactError: the name was not declared here, or the environment cannot be made.
    """
    with _GUARD:
        lock = _lock(kind, name)
    with lock:
        if (kind, name) in _FAILED:
            raise _FAILED[kind, name]
        if (kind, name) not in _MADE:
            try:
                _MADE[kind, name] = _obtain(_declared(kind, name))
            except (ArtifactError, InputError, OSError) as error:
                reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
                _FAILED[kind, name] = ArtifactError(f"{name}: {reason}")
                raise _FAILED[kind, name] from error
        return _MADE[kind, name]


@functools.cache
def _lock(kind: str, name: PluginName) -> threading.RLock:
    return threading.RLock()


def remove_all(*, dry_run: bool = False) -> int:
    """Remove all environments and downloads; return how many bytes that frees.

    What names stand for is kept: a stored cell can be measured again by its name.

    Args:
        dry_run: whether nothing is removed, and only the bytes are counted.
    """
    names = _names()
    places = [place for place in installer.folder().glob("*") if place != names]
    paths = [path for place in places for path in (place, *place.rglob("*"))]
    sizes = {(stat.st_dev, stat.st_ino): stat.st_size for stat in (path.lstat() for path in paths)}
    for place in () if dry_run else places:  # what cannot be removed is an error, and not said to be freed
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()
    return sum(sizes.values())


def _names() -> Path:
    return installer.folder() / "names"


def _declared(kind: str, name: PluginName) -> Declared:
    try:
        return msgspec.json.decode(files.read_bytes(_names() / kind / f"{name}.json"), type=Declared)
    except (OSError, InputError, ValueError, RecursionError) as error:
        raise ArtifactError("this environment is not known here; `bench run --with` or `--python` makes it") from error


def _obtain(declared: Declared) -> Environment:
    if declared.python:
        python = declared.python
        installed = look_into(python)
        for distribution in _WORKER:
            if distribution not in installed.packages:
                raise ArtifactError(f"{distribution} is not installed in {python}; a worker needs {', '.join(_WORKER)}")
        return Environment(interpreter=Interpreter(python=python, package=_package()), installed=installed)
    beside = _versions_here(declared.others)  # another environment, or this one later, is to have other ones
    digest = cache.digest([declared.requirements, declared.others, beside, sys.version_info[:3], sys.base_prefix])
    place = installer.folder() / "made" / f"{digest}.json"
    with _locked(place):
        entry = _found(place) or _make(declared, beside, place)
    python = str(installer.program(_shared(entry.digest)))
    return Environment(interpreter=Interpreter(python=python, package=_package()), installed=entry.installed)


def _found(place: Path) -> Made | None:
    """The environment that a file of the cache tells of, if it is there and whole."""
    try:
        entry = msgspec.json.decode(files.read_bytes(place), type=Made)
    except (OSError, InputError, ValueError, RecursionError):  # what cannot be read is made again
        return None
    return entry if (_shared(entry.digest) / _WHOLE).is_file() else None


def _shared(digest: str) -> Path:
    return installer.folder() / "shared" / digest


def _versions_here(distributions: Sequence[str]) -> list[str]:
    """The versions that distributions, by their canonical names, have in this process's environment."""
    here = {str(canonicalize_name(name)): version for name, version in own().packages.items()}
    return [f"{name}=={here[name]}" for name in distributions if name in here]


def _make(declared: Declared, beside: Sequence[str], place: Path) -> Made:
    """Make an environment, or find one with the same packages, and say in `place` which it is."""
    python = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}")
    python = python if Path(python).exists() else sys.executable
    wanted = [*declared.requirements, *declared.others]
    try:  # that nothing but what was asked for is other than here
        lock = installer.resolved(wanted, beside, python)
    except ArtifactError:
        lock = installer.resolved(wanted, [], python)
    installer.check_size(lock, may_be_large=declared.may_be_large)
    digest = cache.digest([lock, sys.version_info[:3], python])
    shared = _shared(digest)
    with _locked(shared):
        if not (shared / _WHOLE).is_file():
            shutil.rmtree(shared, ignore_errors=True)
            installer.make(lock, shared, python)
            (shared / _WHOLE).touch()  # the last step: what is not whole is made again
    entry = Made(digest=digest, installed=look_into(str(installer.program(shared))))
    files.write_whole(place, msgspec.json.encode(entry))
    return entry


def _package() -> str:
    """A folder with a link to this package and nothing else."""
    folder = installer.folder() / f"package-{cache.digest(str(PACKAGE))}"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / PACKAGE.name
    if not (link.is_symlink() and link.resolve() == PACKAGE):
        beside = folder / f"link-{secrets.token_hex(8)}"
        beside.symlink_to(PACKAGE, target_is_directory=True)
        beside.replace(link)
    return str(folder)


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Hold a folder against other processes that would make the same one."""
    place.parent.mkdir(parents=True, exist_ok=True)
    descriptor = files.open_to_change(place.with_name(f"{place.name}.lock"))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
