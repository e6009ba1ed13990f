"""What a machine of a fleet does not report: failures of cells whose workers died with the machine."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bench.features.fleet import work
from bench.measure.block import Method, Result
from bench.measure.limits import Limits
from bench.pipeline import opening
from support import deferred

deferred.importorskip("ray")


@pytest.fixture
def dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's process is the parent when a step begins, and gone afterwards."""
    parents = itertools.chain([os.getppid()], itertools.repeat(1))
    monkeypatch.setattr(os, "getppid", lambda: next(parents))


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getppid", lambda: 1)  # in a container, it may be this number all the time


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that bring one thing each, and need no lease."""

    def prepare(cells: Any, limits: Limits, told: Callable[[Any], None]) -> None:
        told("failed")

    def hold(**_: object) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    monkeypatch.setattr(work.lease, "hold", hold)
    monkeypatch.setattr(work, "_HERE", SimpleNamespace(prepare=prepare))
    monkeypatch.setattr(work, "_here", lambda value, *_: value)
    monkeypatch.setattr(opening, "subject", lambda value: value)
    failure = SimpleNamespace(
        subject=SimpleNamespace(key="cell"),
        stage="measure",
        error=SimpleNamespace(kind="signal", reason="killed", detail=""),
    )
    result = Result(launches=(), failures=(failure,))  # type: ignore[arg-type]
    monkeypatch.setattr(work, "run_block", lambda *_, **__: result)


def prepared() -> Iterator[Any]:
    return work.prepared([], Limits(), [])


def block() -> work.Done:
    value: Any = SimpleNamespace(key="cell")
    return work.block(value, [value], Method(), 60.0, {}, "one")


@pytest.mark.usefixtures("dies")
def test_a_dying_machine_blames_no_cell() -> None:
    with pytest.raises(work.UnfitError, match="has died"):
        block()


@pytest.mark.usefixtures("dies")
def test_a_dying_machine_tells_nothing_of_what_it_prepares() -> None:
    with pytest.raises(work.UnfitError, match="has died"):
        list(prepared())


@pytest.mark.usefixtures("lives")
def test_a_living_machine_reports_failures() -> None:
    assert [failed[:3] for failed in block().failures] == [("cell", "measure", "signal")]
    assert list(prepared()) == ["failed"]
