"""The pipe of a browser's DevTools: which events a page waits for, and what is said after the page has ended."""

from __future__ import annotations

import collections
import itertools
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.api.errors import ArtifactError
from bench.plugins.engines.browser.browser import Browser

Speaking = Callable[..., Browser]


@pytest.fixture
def speaking() -> Iterator[Speaking]:
    """Makes a browser that has said some messages, and says no more."""
    descriptors: list[int] = []

    def make(*messages: dict[str, Any]) -> Browser:
        own = object.__new__(Browser)
        own.lines = collections.deque()
        own._numbers, own._buffer, own._loaded = itertools.count(1), bytearray(), set()
        own._crash, own._deadline, own._session = "", None, "page"
        own._reads, says = os.pipe()
        own._hears, own._writes = os.pipe()  # type: ignore[attr-defined]
        descriptors.extend((own._reads, own._writes, own._hears))  # type: ignore[attr-defined]
        os.write(says, b"".join(json.dumps(each).encode() + b"\0" for each in messages))
        os.close(says)
        return own

    yield make
    for descriptor in descriptors:
        os.close(descriptor)


def loaded(loader: str) -> dict[str, Any]:
    return {"method": "Page.lifecycleEvent", "params": {"name": "load", "loaderId": loader}}


ANSWER = {"id": 1, "result": {"frameId": "frame", "loaderId": "own"}}
ANY = {"method": "Page.loadEventFired", "params": {}}


@pytest.mark.parametrize(
    ("messages", "num_left"),
    [
        ([loaded("empty"), ANY, ANSWER, ANY, loaded("empty"), loaded("own"), ANY], 1),
        ([loaded("own"), ANSWER, ANY], 1),
    ],
    ids=["the empty page is loaded late", "the page is loaded before the answer"],
)
def test_a_page_is_open_when_its_own_document_is_loaded(
    speaking: Speaking, messages: list[dict[str, Any]], num_left: int
) -> None:
    browser = speaking(*messages)
    browser.open("http://127.0.0.1/page.html")
    assert browser._buffer.count(b"\0") == num_left


def test_a_page_that_crashed_is_asked_nothing_more(speaking: Speaking) -> None:
    """It would never answer, not even that a session is to be closed."""
    browser = speaking({"method": "Inspector.targetCrashed", "params": {}})
    for _ in range(2):
        with pytest.raises(ArtifactError, match=r"^the page crashed: its process ended$"):
            browser.evaluate("1")
    assert os.read(browser._hears, 1 << 16).count(b"\0") == 1  # type: ignore[attr-defined]
