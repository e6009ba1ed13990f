"""A stored cell without figures, and its launches, for tests of the store."""

from __future__ import annotations

from bench.measure.launch import Launch
from bench.records.lines import Header, Line, Quality
from bench.records.store import Store
from support import records as made

KEY, PATH = "0123abcd", "toy/null/native/raw/null/cpu/b1t1"
HEADER = Header(key=KEY, cell=PATH, artifact=None)
QUALITY = Quality(fidelity="exact")


def launch(name: str) -> Launch:
    return made.launch("a", "cell", 1, launch=name, steady_ns=((1, 2), (3,)))


def append(store: Store, *lines: Line) -> None:
    for line in lines:
        store.append(KEY, line)
