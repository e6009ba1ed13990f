"""A fixture for tests of what the list says of a plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.api import loading


@pytest.fixture
def only_folder(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder that has plugins: the list need not load all others, of which it says the same each time."""
    monkeypatch.setattr(loading, "search_path", lambda: (plugin_folder,))
    return plugin_folder
