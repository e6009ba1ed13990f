"""Scripts of `benchmarks/`, imported for a test."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a script as `python benchmarks/<name>.py` would; the scripts set a search path for plugins."""
    monkeypatch.setenv("BENCH_PATH", "")
    monkeypatch.syspath_prepend(str(SCRIPTS))
    before = set(sys.modules)

    def load(name: str) -> ModuleType:
        return __import__(name)

    yield load
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(SCRIPTS)):
            del sys.modules[name]
