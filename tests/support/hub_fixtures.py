"""Fixtures of tests that fetch from a stand-in for the hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.tasks.hub import downloads, fetch
from support import hub_server
from support.hub_server import StandIn

VARIABLES = (
    *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "HF_HUB_DISABLE_IMPLICIT_TOKEN"),
    *("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"),
)


class Fetched:
    """Fetches, and keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def __call__(self, name: str, *, trust: bool = False, yes: bool = False, offline: bool = False) -> Path:
        self.said.clear()
        return fetch.fetch(name, fetch.Asked(trust=trust, may_be_large=yes, is_offline=offline), self.said.append)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A stand-in that `HF_ENDPOINT` names, an empty cache, and no token."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(downloads, "PAUSE_S", 0.01)
    with hub_server.running() as found:
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        yield found


@pytest.fixture
def fetched() -> Fetched:
    return Fetched()
