"""Packages of npm for the tests of runtimes in Node.js: without them, tests are skipped, or fail by `REQUIRE_NODE`."""

from __future__ import annotations

import os

import pytest

from bench.api import Plugin, npm
from bench.api.plugin import NPM


def need(plugin: Plugin) -> None:
    """Skip the test where Node.js or a package of npm is missing; `.ci/run` sets what makes it fail instead."""
    names = [name.removeprefix(NPM) for name in plugin.requires if name.startswith(NPM)]
    if names and (reason := npm.lacking(names)) is not None:
        (pytest.fail if os.environ.get("REQUIRE_NODE") else pytest.skip)(f"{plugin.name}: {reason}")
