"""What a machine tells a fleet about itself: its kind, its software, and what runs on it."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bench.api import cache, loading
from bench.api.errors import PluginError
from bench.measure import machine
from bench.plugins import catalog


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine tells about itself.

    Attributes:
        kind: name of the kind of machine, and of the folder of its results: see `bench.measure.machine.name`.
        machine: its properties, see `bench.measure.machine.describe`.
        code: digest of the harness, with its models and data sets.
        packages: versions of all installed distributions and of Python.
        runtimes: the runtimes and providers that work, as `onnxruntime/cpu`.
        memory_bytes: all of its memory.
        host: its name in the network.
    """

    kind: str
    machine: Mapping[str, Any]
    code: str
    packages: Mapping[str, str]
    runtimes: tuple[str, ...]
    memory_bytes: int
    host: str

    def difference(self, other: Facts) -> str | None:
        """In what its software differs from that of another machine of its kind, in a few words; None if in nothing."""
        if self.code != other.code:
            return f"its harness, models or data sets differ ({self.code[:8]} there, {other.code[:8]} here)"
        for name in sorted({*self.packages, *other.packages}):
            there, here = (facts.packages.get(name, "none") for facts in (self, other))
            if there != here:
                return f"{name} {there} there, {here} here"
        return None


@functools.cache
def here() -> Facts:
    """The facts of this machine."""
    return Facts(
        kind=machine.name(),
        machine=machine.describe(),
        code=code(),
        packages=packages(),
        runtimes=tuple(_runtimes()),
        memory_bytes=psutil.virtual_memory().total,
        host=socket.gethostname(),
    )


def code() -> str:
    """Digest of the harness and of all models and data sets on the search path."""
    folders = [Path(cache.__file__).parents[1]]
    for kind in ("models", "datasets"):
        folders += [path.parent for path in loading.find(kind).values()]
    return cache.digest([cache.digest_folder(folder) for folder in sorted(set(folders))])


def packages() -> dict[str, str]:
    """Versions of all installed distributions but this one, whose code has a digest, and of Python."""
    versions = {
        distribution.metadata["Name"]: distribution.version
        for distribution in importlib.metadata.distributions()
        if distribution.metadata["Name"] not in (None, "inferometer")
    }
    return {**versions, "Python": ".".join(map(str, sys.version_info[:3]))}


def _runtimes() -> Iterator[str]:
    for name in loading.find("runtimes"):
        with contextlib.suppress(PluginError):  # `bench list` says why it cannot be used
            runtime = catalog.runtime(name)
            if catalog.reason_of(runtime) is None:
                yield from (f"{name}/{provider}" for provider in runtime.providers())
