"""What a template imports for plugins, and in which order."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.pipeline import opening
from bench.plugins import catalog

IMPORT = "import importlib, os, sys; [*map(importlib.import_module, sys.argv[1:])]; print(os.environ['KERAS_BACKEND'])"


def test_keras_has_its_backend_before_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    modules = opening.process(catalog.runtime("tensorflow"))["modules"]
    first = modules[: min(map(modules.index, ("keras", "tensorflow")))]
    told = subprocess.run([sys.executable, "-c", IMPORT, *first], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["tensorflow"]
