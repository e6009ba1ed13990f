"""Deployments in words, for figures and sentences: `LiteRT, int8` rather than the path of a cell."""

from __future__ import annotations

import contextlib

from bench.api.errors import BenchError
from bench.records.rows import Row


def title_of(runtime: str) -> str:
    """The name of a runtime in words; that of its plugin where the runtime is not here."""
    from bench.plugins import catalog

    with contextlib.suppress(BenchError):
        return catalog.runtime(runtime).title or runtime
    return runtime


def in_words(row: Row) -> str:
    """The runtime of a row in words, and the precision where it is a reduced one: `LiteRT, int8`."""
    return title_of(row.runtime) + (f", {row.precision}" if row.precision not in (None, "float32") else "")
