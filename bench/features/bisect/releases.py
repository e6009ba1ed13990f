"""The releases of a package that an index has, in their order."""

from __future__ import annotations

import subprocess
from pathlib import Path

from packaging.utils import canonicalize_name, is_normalized_name
from packaging.version import InvalidVersion, Version

from bench.api.errors import InputError
from bench.measure import supervised_program
from bench.pipeline import installer

LIMIT_S = 120


def between(package: str, good: str, bad: str) -> list[str]:
    """The final releases from a good one to a later bad one, both included, that this interpreter can install.

    Raises:
        InputError: the index does not have one of the two, the good one is not the earlier one, or there is no index.
    """
    if not is_normalized_name(canonicalize_name(package)):
        raise InputError(f"not the name of a package: {package!r}")
    ends = []
    for text in (good, bad):
        try:
            ends.append(Version(text))
        except InvalidVersion as error:
            raise InputError(
                f"not a version: {text!r}; a release is allowed, such as 1.23.2",
                fix=f"`pip index versions {package}` lists what there is",
            ) from error
    if ends[0] >= ends[1]:
        raise InputError(f"--good {good} is not earlier than --bad {bad}, as it has to be", fix="name two in order")
    known = listed(package)
    for text, version in zip((good, bad), ends, strict=True):
        if version not in known:
            near = ", ".join(map(str, known[-5:]))
            raise InputError(f"{package}=={text} cannot be installed here; the newest of {len(known)} releases: {near}")
    return [
        str(release)
        for release in known
        if ends[0] <= release <= ends[1] and (release in ends or not release.is_prerelease)
    ]


def listed(package: str) -> list[Version]:
    """All releases of a package for this interpreter, the oldest first.

    Raises:
        InputError: the package or the index is not there.
    """
    command = [*installer.PIP, "index", "versions", "--pre", "--only-binary", ":all:", "--", package]
    try:
        done = supervised_program.run(command, limit_s=LIMIT_S, where=Path.cwd())  # pip's links may be relative
    except subprocess.TimeoutExpired:
        raise InputError(f"no releases of {package}: the index does not answer within {LIMIT_S} s") from None
    line = next((line for line in done.stdout.splitlines() if line.startswith("Available versions:")), "")
    versions = [Version(text.strip()) for text in line.partition(":")[2].split(",") if text.strip()]
    if not versions:
        raise InputError(f"no releases of {package}: {installer.reason_of(done.stderr)}")
    return sorted(versions)
