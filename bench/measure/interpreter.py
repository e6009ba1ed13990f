"""The Python interpreter of a child process: that of this process, or that of another environment of packages."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping

START = "import sys; sys.path[0] = sys.argv.pop(1); import importlib; importlib.import_module(sys.argv.pop(1)).main()"
"""Runs a module of this package whose folder comes first on the search path.

It stands in for `-P -m`: Python 3.10 has no `-P`, and finds modules in the working folder first.
"""
_OF_THIS_ENVIRONMENT = ("PYTHONHOME", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONSTARTUP", "VIRTUAL_ENV")
"""Variables that would bring packages of this process's environment into another one."""
_SECRET = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Variables that no child process gets: none of them asks the hub for anything, and what they run may be foreign."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interpreter:
    """How a child process is started.

    Attributes:
        python: path of the program.
        package: a folder that holds this package and nothing else, for an environment in which this package is not
            installed; None for the environment of this process.
    """

    python: str
    package: str | None = None

    def command(self, module: str) -> list[str]:
        """The program and its arguments that run the `main` of a module of this package."""
        if self.package is None:
            return [self.python, "-P", "-m", module]
        return [self.python, "-c", START, self.package, module]

    def inherited(self) -> Mapping[str, str]:
        """The environment variables of this process that the child gets; no secret is among them."""
        left_out = _SECRET if self.package is None else (*_SECRET, *_OF_THIS_ENVIRONMENT)
        return {name: value for name, value in os.environ.items() if name not in left_out}


OWN = Interpreter(python=sys.executable)
"""The interpreter of this process."""
