"""Fixtures that tests of blocks and of rounds share."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest

from support.fake_blocks import GIB, Bench
from support.subjects import make as make


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100 * GIB))
    return Bench(monkeypatch)
