"""The sentences above tables: which machine, which days, which packages."""

from __future__ import annotations

import dataclasses
from typing import Any

from msgspec.structs import replace

from bench.measure.comparison import CELL
from bench.records import assemble, machines
from bench.records.rows import Row
from bench.records.store import Record
from support import records as made

ZEN5 = {"processor": "AMD EPYC", "family": ["26", "2", "1"], "num_cores": 2, "memory_gib": 24}
ZEN4 = {**ZEN5, "family": ["25", "17", "1"]}


def on(found: Record, facts: dict[str, Any], *days: str, **versions: str | None) -> Record:
    """The record as if it had been measured on a machine on some days."""
    times = (f"{day}T23:59:59+00:00" for day in days)
    launches = tuple(replace(one, time=next(times, one.time)) for one in found.launches)
    header = replace(found.header, machine=facts, time="2026-11-20T08:00:00+00:00", versions=versions)
    return dataclasses.replace(found, header=header, launches=launches)


def rows(*records: Record) -> list[Row]:
    return assemble.rows({record.cell.path: record for record in records})


def test_a_row_tells_its_machine_the_days_of_its_launches_and_its_packages() -> None:
    baseline = on(made.baseline(a=1000, b=2000), ZEN5, "2026-11-22", "2026-11-22", "2026-11-23", "2026-11-23")
    cell = on(
        made.record(made.HALVE, made.launch("a", CELL, 500)), ZEN5, "2026-11-22", onnxruntime="1.23.2", numpy="2.3.4"
    )
    row, other = rows(baseline, cell)
    assert row.machine == other.machine == "AMD EPYC, Zen 5 (family 26, model 2), 2 cores"
    assert (row.measured, other.measured) == ("2026-11-22 to 2026-11-23", "2026-11-22")
    assert (row.packages, other.packages) == (None, "numpy 2.3.4, onnxruntime 1.23.2")


def test_a_row_without_launches_has_a_machine_and_no_day() -> None:
    (row,) = found = rows(on(made.record(made.HALVE), ZEN5, missing=None))
    assert (row.measured, row.packages) == (None, None)
    assert machines.headline(found) == "Measured on AMD EPYC, Zen 5 (family 26, model 2), 2 cores."


def test_rows_of_two_machines_name_both_each_with_its_days() -> None:
    found = rows(
        on(made.record(made.HALVE, made.launch("a", CELL, 500)), ZEN5, "2026-11-20"),
        on(made.record(made.PRUNE, made.launch("b", CELL, 500)), ZEN4, "2026-11-26"),
        on(made.record(made.OTHER_GROUP, made.launch("c", CELL, 500)), ZEN4, "2026-11-27"),
    )
    assert machines.headline(found) == (
        "Measured on AMD EPYC, Zen 4 (family 25, model 17), 2 cores; 2026-11-26 to 2026-11-27; "
        "and on AMD EPYC, Zen 5 (family 26, model 2), 2 cores; 2026-11-20."
    )


def test_rows_that_do_not_tell_have_nothing_above_them() -> None:
    assert machines.sentences(rows(made.record(made.HALVE))) == []


def test_packages_are_named_once_with_all_versions_and_cut_at_a_whole_one() -> None:
    found = rows(
        on(made.record(made.HALVE), ZEN5, onnxruntime="1.20.0", numpy="2.3.4"),
        on(made.record(made.PRUNE), ZEN5, onnxruntime="1.31.1", numpy="2.3.4"),
    )
    whole = "With numpy 2.3.4, onnxruntime 1.20.0 and 1.31.1."
    assert machines.sentences(found)[1] == whole
    assert machines.sentences(found, len(whole))[1] == whole
    assert machines.sentences(found, len(whole) - 1)[1] == "With numpy 2.3.4, ..."
