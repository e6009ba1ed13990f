"""What is installed in a Python environment, asked of its own interpreter."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from packaging.utils import canonicalize_name

from bench.api.errors import ArtifactError
from bench.api.plugin import NPM
from bench.measure import supervised_program

LIMIT_S = 60
_QUESTION = """
import sys
if sys.version_info < (3, 10): sys.exit('Python %d.%d is too old; 3.10 is the oldest' % sys.version_info[:2])
import importlib.metadata as m, json
found = {}
version, provides = '%d.%d.%d' % sys.version_info[:3], {}
for d in m.distributions():
    try: name, number = d.metadata['Name'], d.version
    except Exception: continue  # a damaged distribution hides no other
    if not name or not number: continue
    found[name] = number
    # Python 3.10 looks into top_level.txt alone, which not every distribution has.
    try:
        # `d.files` makes a path of each of a framework's ten thousand lines, and may ask whether it is there.
        paths = [line.split(',')[0].strip('"') for line in (d.read_text('RECORD') or '').splitlines()]
        paths = paths or [str(f) for f in d.files or ()]
        tops = {p.split('/')[0].removesuffix('.py') for p in paths if p.endswith(('.py', '.so', '.pyd'))}
        tops |= {*(d.read_text('top_level.txt') or '').split()}
    except Exception: tops = {name}
    for top in tops: provides.setdefault(top.partition('.')[0], []).append(name)
print(json.dumps({'python': version, 'packages': found, 'provides': provides}))
"""


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """The packages of an environment.

    Attributes:
        python: version of the interpreter.
        packages: versions by distribution.
        provides: the distributions that provide a package, by import name.
    """

    python: Annotated[str, msgspec.Meta(pattern=r"^\d{1,3}\.\d{1,3}\.\d{1,5}$")]
    packages: Mapping[str, str]
    provides: Mapping[str, list[str]]

    def versions(self, requires: Iterable[str]) -> dict[str, str | None]:
        """Versions of the distributions that provide some import names, and of Python; None for what is missing."""
        versions: dict[str, str | None] = {"python": self.python}
        for name in requires:
            top = name.partition(".")[0]
            for distribution in dict.fromkeys(self.provides.get(top, [top])):
                versions[distribution] = self.packages.get(distribution)
        return versions

    def distributions(self, requires: Iterable[str]) -> tuple[str, ...]:
        """Canonical names of the distributions that provide some import names; the names themselves where none does.

        Packages of npm are no distributions.
        """
        tops = (name.partition(".")[0] for name in requires if not name.startswith(NPM))
        return tuple(dict.fromkeys(canonicalize_name(each) for top in tops for each in self.provides.get(top, [top])))


def look_into(python: str) -> Installed:
    """Ask an interpreter what it finds.

    Raises:
        ArtifactError: it is no interpreter, is too old, or does not answer.
    """
    try:
        done = supervised_program.run([python, "-I", "-c", _QUESTION], limit_s=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise ArtifactError("not a Python interpreter: it does not answer") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        why = f" that can be used: {last}" if last.startswith("Python ") else ""  # another program repeats the question
        raise ArtifactError(f"not a Python interpreter{why}")
    try:
        installed = msgspec.json.decode(done.stdout.encode(), type=Installed)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise ArtifactError("not a Python interpreter: its answer cannot be read") from error
    return installed
