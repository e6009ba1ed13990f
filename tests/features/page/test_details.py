"""Values of a row in the details of a cell: each in the unit in which it reads best."""

from __future__ import annotations

import pytest

from bench.features.page.details import details, text_of
from bench.records import assemble
from bench.records.columns import Unit
from bench.report.writing import DASH
from support import records


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, Unit.TIME, DASH),
        (1_234_567, Unit.TIME, "1.235 ms"),
        (999, Unit.BYTES, "999 B"),
        (5_978_112, Unit.BYTES, "5.978 MB"),
        (0.25, Unit.SHARE, "25 %"),
        (0.5, Unit.RATIO, "0.5000"),
        (0.123456, Unit.PLAIN, "0.12346"),
        (1234567, Unit.PLAIN, "1,234,567"),
        ("a\nb", Unit.PLAIN, "a b"),
    ],
)
def test_units(value: object, unit: Unit, text: str) -> None:
    assert text_of(value, unit) == text


def test_a_loss_is_in_db_or_a_share() -> None:
    assert text_of(0.0457, Unit.LOSS, "dB") == "0.0457 dB"
    assert text_of(0.0457, Unit.LOSS, "share") == "4.57 %"


def test_a_launch_has_the_times_before_its_samples() -> None:
    launch = records.launch("0", "baseline-0", 5, import_ns=3_000_000)
    record = records.record(records.BASELINE, launch)
    (row,) = assemble.rows({records.BASELINE: record})
    (shown,) = details(row, record, [launch])["launches"]
    assert (shown["import"], shown["load"], shown["first"]) == ("3.000 ms", "1.000 µs", "2.000 µs")
