"""Fixtures for tests of what the list says of a plugin, and of what a worker does that runs functions of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.api import loading


@pytest.fixture
def only_folder(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder that has plugins: the list need not load all others, of which it says the same each time."""
    monkeypatch.setattr(loading, "search_path", lambda: (plugin_folder,))
    return plugin_folder


@pytest.fixture
def support_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find the package `support`, whose functions a test asks them to run."""
    path = (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
