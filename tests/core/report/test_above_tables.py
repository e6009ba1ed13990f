"""What stands above every table: the machine, the days and the packages."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re

from bench.records.rows import Row
from bench.report.tables import render
from support.rows import BASELINE, FAST

ZEN4 = "AMD EPYC, Zen 4 (family 25, model 17), 2 cores"
ZEN5 = "AMD EPYC, Zen 5 (family 26, model 2), 2 cores"


def on(row: Row, machine: str, measured: str, packages: str = "numpy 2.3.4, onnxruntime 1.31.1") -> Row:
    return dataclasses.replace(row, machine=machine, measured=measured, packages=packages)


def test_processor_days_and_packages_stand_above_every_table() -> None:
    rows = [on(row, ZEN5, "2026-11-22 to 2026-11-23") for row in (BASELINE, FAST)]
    other = on(dataclasses.replace(FAST, task="albert", cell=FAST.cell.replace("crnn", "albert")), ZEN5, "2026-11-20")
    for format in ("table", "md", "latex"):
        text = render([*rows, other], format=format, width=80)
        flat = " ".join(text.replace("\\", "").split())
        assert flat.count(f"Measured on {ZEN5}; ") == 2, "each table has its own"
        assert f"{ZEN5}; 2026-11-22 to 2026-11-23." in flat
        assert f"{ZEN5}; 2026-11-20." in flat
        assert flat.count("With numpy 2.3.4, onnxruntime 1.31.1.") == 2
        assert flat.index("Measured on") < flat.index("torch/torch_onnx")
    assert max(map(len, render(rows, format="table", width=80).splitlines())) <= 80


def test_a_table_of_rows_of_two_machines_names_both() -> None:
    rows = [on(BASELINE, ZEN5, "2026-11-22"), on(FAST, ZEN4, "2026-11-26")]
    for format in ("table", "md"):
        said = " ".join(render(rows, format=format, width=80).split())
        assert f"Measured on {ZEN4}; 2026-11-26; and on {ZEN5}; 2026-11-22." in said


def test_a_terminal_names_as_many_packages_as_one_line_has_room_for() -> None:
    many = ", ".join(f"package-{number} 1.{number}" for number in range(30))
    text = render([on(FAST, ZEN5, "2026-11-22", many)], format="table", width=80)
    (line,) = [line for line in text.splitlines() if line.startswith("With ")]
    assert len(line) <= 80
    assert re.fullmatch(r"With package-0 1\.0, .*package-\d+ 1\.\d+, \.\.\.", line)
    assert "package-29 1.29," in render([on(FAST, ZEN5, "2026-11-22", many)], format="md")


def test_exports_name_the_machine_the_days_and_the_packages() -> None:
    row = on(FAST, ZEN5, "2026-11-22")
    (record,) = json.loads(render([row], format="json"))
    assert (record["machine"], record["measured"]) == (ZEN5, "2026-11-22")
    assert record["packages"] == "numpy 2.3.4, onnxruntime 1.31.1"
    (line,) = csv.DictReader(io.StringIO(render([row], format="csv")))
    assert (line["machine"], line["measured"], line["packages"]) == (ZEN5, "2026-11-22", record["packages"])


def test_a_processor_with_a_hostile_name_steers_no_terminal() -> None:
    row = on(FAST, "EPYC \x1b[31m|*_", "2026-11-22")
    for format in ("table", "md", "latex"):
        assert "\x1b" not in render([row], format=format)
