"""The Python environments in which plugins of other versions run, by the plugin's name in a cell.

A name such as `onnxruntime@1.22.0` is declared before it is used. What was declared is kept in the cache, so that later
commands find the environment of a stored cell, or make it again. A plugin whose packages cannot be installed beside the
others says itself what its environment holds, see `Plugin.isolated`. An environment holds what its plugin and a worker
need, and nothing else; environments with the same packages are one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import importlib.metadata
import os
import secrets
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, is_normalized_name

from bench.api import Plugin, cache, files
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, InputError
from bench.api.loading import PACKAGE
from bench.api.messages import LONGEST, shortened
from bench.api.names import PluginName
from bench.measure.interpreter import OWN, Interpreter
from bench.pipeline import installer
from bench.pipeline.environment_request import Asked
from bench.pipeline.installed_packages import Installed, look_into
from bench.plugins import catalog, declarations

_WORKER = ("numpy",)
"""Distributions that a worker needs beside those of its plugin."""
_WHOLE = "whole"
"""The file that an environment has once all of its packages are installed."""
_FAILURE = ".failed"
"""The end of the name of a file with the reason why an environment could not be made."""
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
        allowed_by: what allows that.
    """

    requirements: list[str]
    others: list[str]
    python: str
    may_be_large: bool = False
    allowed_by: str = "--yes"


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """An environment that was made, as the cache keeps it.

    Attributes:
        digest: name of its folder, a digest of its packages.
        installed: its packages.
        size_bytes: what its files take on the disk; 0 of an environment that an earlier version made.
    """

    digest: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]+$")]
    installed: Installed
    size_bytes: int = 0


@functools.cache
def own() -> Installed:
    """The packages of this process's environment."""
    return look_into(sys.executable)


def declare(
    kind: str,
    plugin: PluginName,
    requires: Sequence[str],
    request: Asked,
    *,
    isolated: Sequence[str] = (),
    may_be_large: bool = False,
) -> PluginName:
    """Give a plugin of another environment a name.

    Args:
        kind: `runtimes`, `exporters` or `variants`.
        plugin: the plugin's name in cells; a variant's with its option. A label that it has is replaced.
        requires: import names of the packages that it needs.
        request: what is other in the environment.
        isolated: what its own environment holds, see `Plugin.isolated`.
        may_be_large: see `Declared`.

    Returns:
        The plugin's name with a label.
    """
    needed = own().distributions(requires)
    name = dataclasses.replace(plugin, label=request.label(needed))
    pinned = {str(canonicalize_name(Requirement(text).name)): text for text in isolated}
    others = [
        pinned.get(distribution, distribution)
        for distribution in dict.fromkeys((*needed, *pinned, *_WORKER))
        if distribution not in request.requirements
    ]
    requirements = list(request.requirements.values())
    declared = Declared(requirements=requirements, others=others, python=request.python, may_be_large=may_be_large)
    place = _names() / kind / f"{name}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    files.write_whole(place, msgspec.json.encode(declared))
    return name


def parts_of(cell: Cell) -> list[tuple[str, PluginName]]:
    """The plugins of a cell: kind and name."""
    return [("exporters", cell.exporter), *(("variants", name) for name in cell.chain), ("runtimes", cell.runtime)]


def names_of(cell: Cell) -> list[tuple[str, PluginName]]:
    """The plugins of a cell that run in another environment: kind and name."""
    return [(kind, name) for kind, name in parts_of(cell) if is_elsewhere(kind, name)]


def is_elsewhere(kind: str, name: PluginName) -> bool:
    """Whether a plugin runs in another environment than this process's."""
    return bool(name.label) or bool(declarations.ask(catalog.plugin(kind, name), "runs_apart"))


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
    return of(kind, name).interpreter if is_elsewhere(kind, name) else OWN


def versions_of(kind: str, name: PluginName, requires: Sequence[str]) -> dict[str, str | None]:
    """Versions of the packages that a plugin of another environment runs with, see `provenance.versions`.

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
        name: the name of a plugin that runs elsewhere.

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


def digest_of(kind: str, name: PluginName) -> str:
    """A digest of all packages of the environment of a plugin's own; that of its requirements where it is not made."""
    declared = _isolated(catalog.plugin(kind, name))
    entry = _found(_place(declared))
    return cache.digest(declared.requirements) if entry is None else entry.digest


def make_isolated(plugin: Plugin, *, may_be_large: bool = False) -> int:
    """Make the environment of a plugin's own, if it is not there; return the bytes that it takes on the disk.

    Raises:
        ArtifactError: it cannot be made.
    """
    return _entry(_isolated(plugin, may_be_large=may_be_large)).size_bytes


def size_of_isolated(plugin: Plugin) -> int | None:
    """The bytes that the environment of a plugin's own takes on the disk; None where it is not made."""
    entry = _found(_place(_isolated(plugin)))
    return None if entry is None else entry.size_bytes


def last_failure(plugin: Plugin) -> str | None:
    """Why the environment of a plugin's own could not be made, in one line; None where nothing is known of that."""
    failure = _place(_isolated(plugin)).with_suffix(_FAILURE)
    with contextlib.suppress(OSError, InputError):
        return shortened(files.read_bytes(failure).decode(errors="replace"), LONGEST)
    return None


def _isolated(plugin: Plugin, *, may_be_large: bool = False) -> Declared:
    """What a plugin's own environment holds; what it names without a version has this process's where it can."""
    names = [text for text in plugin.isolated if is_normalized_name(text)]
    return Declared(
        requirements=[text for text in plugin.isolated if text not in names],
        others=list(dict.fromkeys((*names, *_WORKER))),
        python="",
        may_be_large=may_be_large,
        allowed_by=f"`bench install {plugin.name} --yes`",
    )


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
    return installer.removed([place for place in installer.folder().glob("*") if place != names], dry_run=dry_run)


def _names() -> Path:
    return installer.folder() / "names"


def _declared(kind: str, name: PluginName) -> Declared:
    if not name.label:
        return _isolated(catalog.plugin(kind, name))
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
    entry = _entry(declared)
    python = str(installer.program(_shared(entry.digest)))
    return Environment(interpreter=Interpreter(python=python, package=_package()), installed=entry.installed)


def _entry(declared: Declared) -> Made:
    """The environment with what was declared, made now if it is not there."""
    place = _place(declared)
    with _locked(place):
        if (entry := _found(place)) is not None:
            return entry
        failure = place.with_suffix(_FAILURE)
        try:
            entry = _make(declared, _versions_here(declared.others), place)
        except ArtifactError as error:
            files.write_whole(failure, str(error).encode())
            raise
        failure.unlink(missing_ok=True)
        return entry


def _place(declared: Declared) -> Path:
    """The file of the cache that tells which environment has what was declared."""
    beside = _versions_here(declared.others)  # another environment, or this one later, is to have other ones
    digest = cache.digest([declared.requirements, declared.others, beside, sys.version_info[:3], sys.base_prefix])
    return installer.folder() / "made" / f"{digest}.json"


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
    versions = []
    for name in distributions:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):  # or it is pinned
            versions.append(f"{name}=={importlib.metadata.version(name)}")
    return versions


def _make(declared: Declared, beside: Sequence[str], place: Path) -> Made:
    """Make an environment, or find one with the same packages, and say in `place` which it is."""
    python = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}")
    python = python if Path(python).exists() else sys.executable
    wanted = [*declared.requirements, *declared.others]
    try:  # that nothing but what was asked for is other than here
        lock = installer.resolved(wanted, beside, python)
    except ArtifactError:
        lock = installer.resolved(wanted, [], python)
    installer.check_size(lock, may_be_large=declared.may_be_large, allowed_by=declared.allowed_by)
    digest = cache.digest([lock, sys.version_info[:3], python])
    shared = _shared(digest)
    with _locked(shared):
        if not (shared / _WHOLE).is_file():
            shutil.rmtree(shared, ignore_errors=True)
            installer.make(lock, shared, python)
            (shared / _WHOLE).touch()  # the last step: what is not whole is made again
    size_bytes = sum(path.lstat().st_size for path in shared.rglob("*"))
    entry = Made(digest=digest, installed=look_into(str(installer.program(shared))), size_bytes=size_bytes)
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
