"""The store keeps every launch under kills, full disks and lost power, and a damaged line costs no other."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

from bench.records.store import SCHEMA, Store
from fuzz.appending import CELL, KEY, Appending
from fuzz.watch import LOST, BrokenRule
from support import records as made

STEADY = settings(
    max_examples=40,
    stateful_step_count=15,
    derandomize=True,  # the same steps in every run: `make fuzz` looks for others
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def test_no_launch_is_lost() -> None:
    run_state_machine_as_test(Appending, settings=STEADY)


def test_a_store_that_loses_a_launch_is_noticed() -> None:
    """Without the cut at the last whole line, a launch is appended to what a kill left, and cannot be read."""

    def careless(descriptor: int, length: int) -> None:
        pass

    with mock.patch("os.ftruncate", careless), pytest.raises(BaseException) as caught:  # noqa: PT011
        run_state_machine_as_test(Appending, settings=settings(STEADY, phases=[Phase.generate]))  # the first is enough
    errors = caught.value.exceptions if isinstance(caught.value, BaseExceptionGroup) else [caught.value]
    assert any(isinstance(error, BrokenRule) and error.rule == LOST for error in errors)


@pytest.mark.parametrize(
    "damaged", [b"{", b'{"kind":"launch"}', b"\xff", b'{"kind":"quality","fidelity":1}', b"[" * 9999]
)
def test_a_damaged_line_costs_no_other_line(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "machine").mkdir()
    store = Store(tmp_path, "machine")
    found = made.baseline()
    store.append(KEY, replace(found.header, key=KEY, schema=SCHEMA))
    first, *others = found.launches
    store.append(KEY, first)
    with (store.folder / f"{KEY}.jsonl").open("ab") as file:
        file.write(damaged + b"\n")
    for launch in others:
        store.append(KEY, launch)
    record = store.read(KEY)
    assert record is not None
    assert record.cell.path == CELL
    assert [launch.launch for launch in record.launches] == [launch.launch for launch in found.launches]
