"""What is installed in a Python environment, asked of its own interpreter."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping

import msgspec
from packaging.utils import canonicalize_name

from bench.api.errors import ArtifactError

LIMIT_S = 60
QUESTION = """
import sys
if sys.version_info < (3, 10): sys.exit('Python %d.%d is too old; 3.10 is the oldest' % sys.version_info[:2])
import importlib.metadata as m, json
found = {d.metadata['Name']: d.version for d in m.distributions() if d.metadata['Name']}
version, provides = '%d.%d.%d' % sys.version_info[:3], {}
for d in m.distributions():
    # Python 3.10 looks into top_level.txt alone, which not every distribution has.
    tops = {f.parts[0].removesuffix('.py') for f in d.files or () if f.suffix in ('.py', '.so', '.pyd')}
    for name in {*tops, *(d.read_text('top_level.txt') or '').split()}:
        provides.setdefault(name.partition('.')[0], []).append(d.metadata['Name'])
print(json.dumps({'python': version, 'packages': found, 'provides': provides}))
"""


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """The packages of an environment.

    Attributes:
        python: version of the interpreter.
        packages: versions by distribution.
        provides: the distributions that provide a package, by import name.
    """

    python: str
    packages: Mapping[str, str]
    provides: Mapping[str, list[str]]

    def versions(self, requires: Iterable[str]) -> dict[str, str | None]:
        """Versions of the distributions that provide some import names, and of Python; None for what is missing."""
        found: dict[str, str | None] = {"python": self.python}
        for name in requires:
            top = name.partition(".")[0]
            for distribution in dict.fromkeys(self.provides.get(top, [top])):
                found[distribution] = self.packages.get(distribution)
        return found

    def distributions(self, requires: Iterable[str]) -> tuple[str, ...]:
        """Canonical names of the distributions that provide some import names; the names themselves where none does."""
        tops = (name.partition(".")[0] for name in requires)
        return tuple(dict.fromkeys(canonicalize_name(each) for top in tops for each in self.provides.get(top, [top])))


def look_into(python: str) -> Installed:
    """Ask an interpreter what it finds.

    Raises:
        ArtifactError: it is no interpreter, is too old, or does not answer.
    """
    try:
        done = subprocess.run(
            [python, "-I", "-c", QUESTION], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        why = "it does not answer" if isinstance(error, subprocess.TimeoutExpired) else error.strerror
        raise ArtifactError(f"not a Python interpreter: {why}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it failed and said nothing"])[-1]
        raise ArtifactError(last)
    try:
        return msgspec.convert(json.loads(done.stdout), Installed)
    except (ValueError, msgspec.ValidationError) as error:
        raise ArtifactError("not a Python interpreter: its answer cannot be read") from error
