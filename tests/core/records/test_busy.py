"""Whether other programs held the cores: by the load, by waiting, and only where many launches had it."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from bench.measure.machine import State
from bench.records import assemble
from bench.records.busy import note
from bench.records.warnings import warnings
from support import records as made

CORES = {"num_cores": 2}


def launches(num_busy: int, **busy: object) -> list[made.Launch]:
    return [made.launch(str(number), "cell", 1000, **(busy if number < num_busy else {})) for number in range(8)]


LOADED = State(load_1m=20.0, available_bytes=1)


@pytest.mark.parametrize("busy", [{"machine": LOADED}, {"run_delay_share": 0.3}, {"steal_share": 0.3}])
def test_a_busy_machine_is_told_of_where_many_launches_had_it(busy: dict[str, object]) -> None:
    assert note(launches(2, **busy), CORES) is None
    said = note(launches(5, **busy), CORES)
    assert said is not None
    assert said.startswith("the machine was busy in 5 of 8 launches")
    assert "--force measures again" in said


def test_a_sweep_alone_is_no_load() -> None:
    alone = State(load_1m=3.0, available_bytes=1)
    assert note(launches(8, machine=alone, run_delay_share=0.02), CORES) is None
    assert note([], CORES) is None


@pytest.mark.parametrize("cores", [None, 0, -1, "many", "2", [2]])
def test_a_load_says_nothing_where_the_cores_are_not_known(cores: object) -> None:
    assert note(launches(8, machine=LOADED), {"num_cores": cores}) is None
    said = note(launches(8, machine=LOADED, steal_share=0.3), {"num_cores": cores}) or ""
    assert said.startswith("the machine was busy in 8 of 8 launches: workers waited up to 30 % of their time: ")


def test_every_row_of_the_task_has_the_note_and_a_warning_says_it_once() -> None:
    busy = [made.launch(block, role, 1000, machine=LOADED) for block in "ab" for role in ("reference", "control")]
    records = [
        made.record(made.BASELINE, *busy),
        made.record(made.HALVE, made.launch("a", "cell", 500, machine=LOADED)),
    ]
    records = [dataclasses.replace(one, header=replace(one.header, machine={"num_cores": 1})) for one in records]
    rows = assemble.rows({one.cell.path: one for one in records})
    assert all(row.busy_note for row in rows)
    (warning,) = warnings(rows)
    assert warning.startswith("WARNING: toy: the machine was busy in 5 of 5 launches: a load of up to 20 on 1 core")
