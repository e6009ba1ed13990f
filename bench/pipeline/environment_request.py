"""What `--with` and `--python` ask for: other versions of packages, or a whole other environment."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from bench.api import cache
from bench.api.errors import ArtifactError, InputError
from bench.pipeline.installed_packages import look_into

LONGEST = 100
"""Most characters of a package and its version, which become part of names of files."""
_NEXT_PACKAGE = re.compile(r",(?=\s*[A-Za-z./])(?![^\[]*\])")
"""A comma before another package; one before an operator is part of a range of versions, one in brackets of extras."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """Packages of versions that belong together, or an interpreter of another environment.

    Attributes:
        text: the value of the option.
        requirements: as pip takes them, by the packages' names; empty for an interpreter.
        versions: of these packages, with their extras, for names of cells.
        python: path of the interpreter; empty for packages.
        python_version: version of the interpreter.
    """

    text: str
    requirements: Mapping[str, str] = dataclasses.field(default_factory=dict)
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    python: str = ""
    python_version: str = ""

    def concerns(self, distributions: Collection[str]) -> bool:
        """Whether a plugin with packages of these distributions runs otherwise; with another interpreter all do."""
        return bool(self.python) or not self.requirements.keys().isdisjoint(distributions)

    def label(self, distributions: Iterable[str]) -> str:
        """What names of cells have for it: the version of a plugin's own package, and packages that come along."""
        if self.python:
            return f"python-{self.python_version}-{hashlib.sha256(self.python.encode()).hexdigest()[:6]}"
        own = next(name for name in distributions if name in self.versions)
        others = [f"{name}-{version}" for name, version in self.versions.items() if name != own]
        # Other characters than a label has, such as the `+` of a local version, become `-`.
        return re.sub(r"[^A-Za-z0-9_.-]", "-", "-".join([self.versions[own], *others]))


def packages(text: str) -> Asked:
    """Packages as `--with` takes them: `onnxruntime==1.22.0`, `openvino==2025.3,nncf==2.18`, `./mine.whl`.

    Raises:
        InputError: a part is no package with one version, or no wheel that can be read; the message says how it reads.
    """
    requirements, versions = {}, {}
    for part in filter(None, map(str.strip, _NEXT_PACKAGE.split(text))):
        name, version, requirement = _wheel(Path(part)) if part.endswith(".whl") else _pinned(part)
        if name in versions:
            raise InputError(f"--with {text}: it names {name} twice; give --with once for each version")
        requirements[name], versions[name] = requirement, version
    if not versions:
        raise InputError("--with needs a package and a version, as in --with onnxruntime==1.22.0")
    if sum(len(name) + len(version) for name, version in versions.items()) > 2 * LONGEST:
        raise InputError(f"--with {text[:LONGEST]}...: these are too many packages for the name of a cell")
    return Asked(text=text, requirements=requirements, versions=versions)


def environment(python: Path) -> Asked:
    """An interpreter as `--python` takes it.

    Raises:
        InputError: there is no such file, or it is no interpreter that can be used.
    """
    interpreter = Path(python)
    if not interpreter.is_file():
        what = "not a file" if interpreter.exists() else "no such file"
        within = interpreter / "bin" / "python"
        name = str(within) if within.exists() else ".venv/bin/python"
        raise InputError(f"--python {python}: {what}; name an environment's interpreter, such as {name}")
    # The link itself is not resolved: that of an environment leads to the interpreter that it was made from.
    path = str(interpreter.parent.resolve() / interpreter.name)
    try:
        return Asked(text=str(python), python=path, python_version=look_into(path).python)
    except ArtifactError as error:
        raise InputError(f"--python {python}: {error}") from error


def _pinned(text: str) -> tuple[str, str, str]:
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise InputError(f"--with {text}: not a package: {str(error).splitlines()[0]}") from error
    pins = [clause.version for clause in requirement.specifier if clause.operator == "==" and "*" not in clause.version]
    if (
        requirement.url
        or requirement.marker
        or len(pins) != 1
        or len(requirement.specifier) != 1
        or len(text) > LONGEST
    ):
        raise InputError(f"--with {text[:LONGEST]}: say one version, as in {requirement.name[:LONGEST]}==1.2.3")
    extras = "".join(f"-{extra}" for extra in sorted(map(canonicalize_name, requirement.extras)))
    return canonicalize_name(requirement.name), f"{Version(pins[0])}{extras}", text


def _wheel(path: Path) -> tuple[str, str, str]:
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise InputError(f"--with {path}: not the name of a wheel, such as demo-1.0-py3-none-any.whl") from error
    try:
        digest = cache.file_digest(path)
    except OSError as error:
        raise InputError(f"--with {path}: {error.strerror}") from error
    # Builds of one version differ in their files alone.
    return canonicalize_name(name), f"{version}-{digest[:12]}", f"{name} @ {path.resolve().as_uri()}#sha256={digest}"
