"""Hostile texts in every field of stored records: no format lets a control character, markup or a formula through."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.api.loss_units import AllowedLoss
from bench.decisions.best import best
from bench.measure.roofline import Peaks
from bench.records import assemble
from bench.records.lines import Placed
from bench.records.measurements import Measurements
from bench.records.rows import Row
from bench.records.store import Record, Store
from bench.report import roofline, terminal, writing
from bench.report.figures import plots
from bench.report.tables import FORMATS, render
from support import page_records as made
from support.features import needs

STEERS = "\x1b]0;pwn\x07\x9b2J\x7f\u202e\u2066\u200b\u2028\r"
SHOWN = STEERS.encode("unicode_escape").decode()
LAYOUT = "\n\N{NO-BREAK SPACE}"


def hostile_records() -> dict[str, Record]:
    """The records of the page, with control characters in every free text of them."""
    found = {}
    for path, record in made.records().items():
        header = replace(record.header, versions={f"package{STEERS}": f"1.0{STEERS}"}, machine={"processor": STEERS})
        quality = record.quality and replace(
            record.quality,
            metrics={f"accuracy{STEERS}": 0.5},
            metric_name=f"accuracy{STEERS}",
            precision=f"float{STEERS}",
            warning=f"beware{STEERS}",
            lost=made.LOST,
            convention=f"taken{STEERS}",
            placement={f"provider{STEERS}": Placed(nodes=1)},
            input_shapes={f"image{STEERS}": (1, 3)},
            reason=f"reason{STEERS}" if record.quality.fidelity == "broken" else None,
        )
        failure = record.failure and replace(record.failure, reason=f"failed{STEERS}")
        found[path] = dataclasses.replace(record, header=header, quality=quality, failure=failure)
    return found


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return assemble.rows(hostile_records())


def assert_seen(text: str) -> None:
    hidden = {char for char in text if not char.isprintable() and char not in LAYOUT}
    assert not hidden


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_shows_escapes(rows: list[Row], format: str) -> None:
    columns = ("cell", "metric", "precision", "warning", "reason", "placement")
    text = render(rows, format=format, columns=columns, width=400)
    assert_seen(text)
    if format == "json":
        assert any(row["precision"] == f"float{STEERS}" for row in json.loads(text)), "JSON is exact"
    else:
        assert "u202e" in text
        assert "x1b" in text
        assert_seen(render(rows, format=format, width=200))


def test_the_caption_shows_a_convention_with_escapes(rows: list[Row]) -> None:
    text = render(rows, format="table", width=400)
    assert f"Max drop: by convention, taken{SHOWN[:-2]}." in text, "it is one line"


def test_json_gives_every_text_back(rows: list[Row]) -> None:
    (broken,) = (row for row in json.loads(render(rows, format="json")) if row["cell"] == made.BROKEN)
    assert broken["reason"] == f"reason{STEERS}"


@needs("export")
def test_exports_show_escapes(rows: list[Row], tmp_path: Path) -> None:
    from bench.features.export import bmf, gha, otava
    from bench.features.export.figures import benchmarks

    found = benchmarks(rows, Measurements(hostile_records()))
    histories = otava.written(found, tmp_path).values()
    for text in (bmf.render(found), gha.render(found), *histories):
        assert_seen(text)
    assert {name for figures in json.loads(bmf.render(found)).values() for name in figures if "acc" in name} == {
        "metric-accuracy-0-pwn-2j"
    }
    assert len([text for text in histories if f"accuracy{SHOWN}" in text]) == len(found) == 3


@needs("page")
def test_the_page_shows_escapes(rows: list[Row]) -> None:
    from bench.features.page.document import Shown, page

    found = hostile_records()
    chosen = best(Measurements(found), rows, max_metric_loss=AllowedLoss())
    html = page([Shown(records=found, rows=rows, best=chosen)], margin=0.02)
    assert_seen(html)
    data = json.loads(html.partition('id="data">')[2].partition("</script>")[0])
    assert_seen(json.dumps(data, ensure_ascii=False))
    assert SHOWN in html
    assert f"worse if taken{SHOWN}" in html, "the bound and its convention are shown"


def test_figures_show_escapes_and_what_the_font_lacks(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    row = assemble.rows({made.BASELINE: made.records()[made.BASELINE]})[0]
    named = dataclasses.replace(row, metric_name=f"$\\alpha$ \u4e2d{STEERS}")
    for path in plots.draw([named], tmp_path):
        if path.suffix == ".svg":
            text = path.read_text(encoding="utf-8")
            assert_seen(text)
            if path.stem.endswith("accuracy"):
                assert f"$\\alpha$ \\u4e2d{SHOWN}" in text
    assert not [found for found in recwarn if "missing from" in str(found.message)]


@pytest.mark.parametrize(
    "text",
    [
        *("=1+cmd|'/C calc'!A0", "+1+1", "-2+3", "-1x3", "@SUM(1)", "\t=1", "\r=1", "\n=1", " =1"),
        *("\uff1d1", "-", "=", "--1", "+-1", "-0.5.1", "-1e", "-0x10"),
    ],
)
def test_a_text_that_a_spreadsheet_computes_gets_an_apostrophe(text: str) -> None:
    (_, (cell,)) = csv.reader(io.StringIO(writing.as_csv(["name"], [[text]])))
    assert cell.startswith("'")
    assert cell[1:].encode().decode("unicode_escape" if text.isascii() else "utf-8") == text


@pytest.mark.parametrize(
    "value", [-0.5, -1, 1e-9, -2.5e-07, float("-inf"), "-0.5", "+3", "-1e-06", "-inf", "7 = 7", "a-b"]
)
def test_numbers_and_other_texts_stay_in_csv(value: Any) -> None:
    assert list(csv.reader(io.StringIO(writing.as_csv(["x"], [[value]])))) == [["x"], [str(value)]]


def test_a_title_of_csv_is_no_formula() -> None:
    assert writing.as_csv(["=a"], [[None]]) == '\'=a\n""\n'


def test_markdown_stays_one_line_and_escaped() -> None:
    line = f"[a](javascript:x) <b> `c` | {STEERS}\n# d"
    table = writing.markdown(["name"], [[line]], [True])
    assert len(table.splitlines()) == 3
    assert "]\\(javascript" in table
    assert "&lt;b&gt; \\`c\\` \\|" in table
    assert "\\\\n\\# d" in table
    assert_seen(table)


def test_a_console_prints_colours_but_no_codes_of_a_text() -> None:
    file = io.StringIO()
    console = terminal.Console(file=file, force_terminal=True, color_system="standard", width=200)
    console.print(terminal.line(f"name{STEERS}\nnext", style="green"))
    console.print(f"markup {STEERS}", markup=False)
    codes = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())
    assert "\x1b[32m" in file.getvalue()
    assert_seen(codes)
    assert f"name{SHOWN}\\nnext" in codes, "the bell is shown, and not dropped"


def test_peaks_of_the_roofline_show_escapes(rows: list[Row]) -> None:
    peaks = Peaks(macs_per_s={f"float{STEERS}": 1e9}, libraries={f"float{STEERS}": STEERS}, bytes_per_s=1e9)
    for format in ("table", "md", "csv", "json"):
        text = roofline.render(rows, {1: peaks}, format=format)
        assert_seen(text)
        assert format == "csv" or "u202e" in text


@needs("compare")
def test_a_comparison_of_results_with_hostile_texts_shows_escapes(tmp_path: Path) -> None:
    from bench.features.compare import changes, render

    sides = []
    for letter, found in (("A", made.records()), ("B", hostile_records())):
        store = Store(tmp_path / f"{letter}{STEERS}\n", f"machine{STEERS}")
        store.folder.mkdir(parents=True)
        for record in found.values():
            if str(record.cell.task) == "toy":
                header = replace(record.header, key=record.cell.variant)
                lines = (header, record.quality, *record.launches, record.failure)
                for line in filter(None, lines):
                    store.append(record.cell.variant, line)
        sides.append(str(store.folder))
    compared = changes.stored(*sides, (), results=tmp_path, margin=0.02, force=True)
    for format in ("table", "md", "json"):
        text = render.render(compared, format=format)
        assert_seen(text)
        assert "A\\x1b" in text or format != "table"
