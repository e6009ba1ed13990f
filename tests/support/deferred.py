"""Packages that take seconds to import, for files of tests that are collected by every process and run by one."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from bench.onnxfile.deferred import _Deferred


def importorskip(name: str) -> Any:
    """A module that is imported when a test uses it; without its package all tests of the file are skipped."""
    package = name.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)
    return _Deferred(name)
