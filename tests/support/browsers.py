"""A browser for the tests of pages: without one they are skipped, or fail where `REQUIRE_BROWSER` is set."""

from __future__ import annotations

import os

import pytest

from bench.api import Runtime


def need(runtime: Runtime) -> None:
    """Skip the test where a runtime in a page cannot work here; `.ci/run` sets what makes it fail instead."""
    if (reason := runtime.skip()) is not None:
        (pytest.fail if os.environ.get("REQUIRE_BROWSER") else pytest.skip)(reason)
