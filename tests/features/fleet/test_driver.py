"""The driver of a fleet: each kind of machine runs the whole sweep; no Ray runs here."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.api.cell import Cell
from bench.features.fleet import cluster, driver

CELLS = [Cell.from_path(f"toy/null/native/raw/null/cpu/b{batch}t1") for batch in (1, 2, 4)]


class Sweep:
    """A sweep of a kind, which leaves out as many cells as its store says."""

    def __init__(self, store: Any, *_: Any) -> None:
        self.left_out: list[Cell] = []
        self._num = store

    def run(self, cells: Sequence[Cell]) -> None:
        self.left_out += cells[: self._num]


def test_what_each_kind_had_no_time_for_is_told_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "Sweep", Sweep)
    monkeypatch.setattr(driver, "FleetPlace", lambda *_: SimpleNamespace(end=lambda: None))
    monkeypatch.setattr(driver, "Portable", lambda **_: None)
    monkeypatch.setattr(cluster, "watch", lambda address, lost: None)
    machines: Any = [SimpleNamespace(facts=SimpleNamespace(kind=kind)) for kind in ("slow", "fast", "slow")]
    num_left_out: Any = {"fast": 0, "slow": 2}
    ran = driver.run(
        "head:6399", machines, CELLS, cast(Any, None), num_left_out.__getitem__, cast(Any, lambda kind: None), print
    )
    assert {kind: sweep.left_out for kind, sweep in ran.items()} == {"fast": [], "slow": CELLS[:2]}
