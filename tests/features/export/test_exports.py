"""The formats of other tools: their schemas and parsers take what is exported, with its intervals."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import functools
import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bench.api.errors import ArtifactError, InputError
from bench.features.export import bmf, gha, otava
from bench.features.export.figures import Benchmark, benchmarks, left_out
from bench.pipeline import installer
from bench.records import assemble
from bench.records.measurements import Measurements
from bench.records.rows import Row
from support import page_records as made

BASELINE, HALVE, PRUNE = made.BASELINE, made.HALVE, made.PRUNE

SLUG, NUMBER = "^[a-z0-9]+(-[a-z0-9]+)*$", {"type": "number"}
BMF = jsonschema.Draft7Validator(
    {
        "type": "object",
        "propertyNames": {"minLength": 1, "maxLength": 1024},
        "additionalProperties": {
            "type": "object",
            "propertyNames": {"maxLength": 64, "pattern": SLUG},
            "additionalProperties": {
                "type": "object",
                "properties": {"value": NUMBER, "lower_value": NUMBER, "upper_value": NUMBER},
                "required": ["value"],
                "additionalProperties": False,
            },
        },
    }
)
"""What Bencher's schema says, https://bencher.dev/bmf.json, and the limits of names and slugs.

Source of the limits: `BenchmarkName` and `Slug` in `lib/bencher_valid/src/` of https://github.com/bencherdev/bencher.
"""

TEXT = {"type": "string"}
GHA = jsonschema.Draft7Validator(
    {
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "properties": {"name": TEXT, "value": NUMBER, "unit": TEXT, "range": TEXT, "extra": TEXT},
            "required": ["name", "value", "unit"],
            "additionalProperties": False,
        },
    }
)
"""What the action's parser checks, without the conversions of its `z.coerce`, and that there is a result.

Source: `BenchmarkResult` and `extractResult` in `src/extract.ts` of
https://github.com/benchmark-action/github-action-benchmark, version 1.22.0.
"""
RANGE = re.compile(r"(?P<prefix>(\+-|±)\s*)(?P<value>\d.*)")
"""The ranges that the action reads. Source: `src/extractRangeInfo.ts` of the same."""


@functools.cache
def measurements() -> Measurements:
    return Measurements(made.records())


@functools.cache
def everything() -> list[Row]:
    return assemble.rows(measurements().records, measurements=measurements())


def rows(**changed: object) -> list[Row]:
    """The rows of the cells of `toy`, with other values for some keys of the one that takes half the time."""
    found = [row for row in everything() if row.task == "toy"]
    return [dataclasses.replace(row, **changed) if row.cell == HALVE else row for row in found]  # type: ignore[arg-type]


def exported(**changed: object) -> list[Benchmark]:
    return benchmarks(rows(**changed), measurements())


def half(**changed: object) -> Row:
    (row,) = (row for row in rows(**changed) if row.cell == HALVE)
    return row


def test_only_cells_with_a_place_in_the_ranking_are_exported() -> None:
    assert {found.cell for found in exported()} == {BASELINE, HALVE, PRUNE}
    assert left_out(assemble.rows(made.records())) == "2 cells are left out: 1 broken, 1 failed; `bench show` says why"
    assert (
        left_out(rows(same_as=BASELINE)) == "2 cells are left out: 1 broken, 1 same as another; `bench show` says why"
    )
    assert left_out([half()]) is None


def test_a_cell_is_known_by_its_baseline_its_time_and_its_launches() -> None:
    found = {found.cell: found for found in exported()}
    stored = made.records()[HALVE]
    times = sorted(str(launch.time) for launch in stored.launches)
    assert (found[HALVE].baseline, found[HALVE].num_launches, found[HALVE].time) == (BASELINE, 2, times[-1])
    (alone,) = benchmarks([half(ratio=None)], measurements())
    assert alone.baseline is None


def test_bencher_takes_the_figures_with_their_intervals() -> None:
    row, found = half(), json.loads(bmf.render(exported()))
    BMF.validate(found)
    assert list(found) == [found.cell for found in exported()]
    assert found[HALVE] == {
        "latency": {
            "value": row.latency_p50_ns,
            "lower_value": row.latency_p50_low_ns,
            "upper_value": row.latency_p50_high_ns,
        },
        "ratio": {"value": row.ratio, "lower_value": row.ratio_low, "upper_value": row.ratio_high},
        "memory": {"value": row.model_rss_bytes},
        "file-size": {"value": 31},
        "metric-accuracy": {"value": 0.745},
        "metric-loss": {"value": row.metric_loss, "upper_value": row.metric_loss_high},
    }
    assert found[HALVE]["ratio"]["value"] == pytest.approx(0.5, rel=1e-3)
    assert row.ratio_low is not None
    assert row.ratio_low < found[HALVE]["ratio"]["value"]


@pytest.mark.parametrize("name", ['a"b\\c', "PSNR (dB)", "\x00", "", "ü", "x" * 200, "-", "latency"])
def test_each_metric_has_a_measure_of_its_own(name: str) -> None:
    found = json.loads(bmf.render(exported(metric_name=name)))
    BMF.validate(found)
    assert len(found[HALVE]) == 6
    assert any(measure.startswith("metric") and measure != "metric-loss" for measure in found[HALVE])


def test_bencher_takes_no_longer_name() -> None:
    long = f"toy/null/native/{'+'.join(['prune'] * 200)}/null/cpu/b2t1"
    with pytest.raises(InputError, match="names of 1,024 bytes at most"):
        bmf.render([dataclasses.replace(exported()[0], cell=long)])


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_a_figure_that_is_not_known_is_left_out(value: float | None) -> None:
    changed = {"metric": value, "metric_loss": value, "ratio_low": value, "model_rss_bytes": None}
    found = json.loads(bmf.render(exported(**changed)))
    BMF.validate(found)
    assert set(found[HALVE]) == {"latency", "ratio", "file-size"}
    assert set(found[HALVE]["ratio"]) == {"value", "upper_value"}
    entries = json.loads(gha.render(exported(**changed)))
    GHA.validate(entries)
    (ratio,) = (entry for entry in entries if entry["name"] == f"{HALVE}: ratio")
    assert "range" not in ratio


EXTRA = f"launches: 2\nmeasured on {exported()[0].machine} at 2032-05-18T11:00:00+00:00"
"""Of a cell of which no package is known."""


def test_the_machine_and_the_packages_stand_beside_each_figure() -> None:
    strange = dataclasses.replace(exported()[0], versions={"onnxruntime": "1.2+cpu", "b<i>\n": "1|\x1b`2"})
    for entry in json.loads(gha.render([strange])):
        last = entry["extra"].splitlines()[-1]
        assert last == f"measured on {strange.machine} at {strange.time} with b?i? 1?2, onnxruntime 1.2+cpu"


def test_the_action_takes_the_figures_with_their_intervals() -> None:
    found = json.loads(gha.render(exported(latency_p50_low_ns=600_000.0, latency_p50_high_ns=1_000_000.0)))
    GHA.validate(found)
    assert len({entry["name"] for entry in found}) == len(found)
    entries = {entry["name"]: entry for entry in found}
    value = half().latency_p50_ns
    assert value is not None
    latency = entries[f"{HALVE}: latency"]
    assert (latency["value"], latency["unit"]) == (pytest.approx(value / 1e6, rel=1e-5), "ms")
    assert "95 % interval: 0.6 to 1 ms" in latency["extra"].splitlines()
    assert "launches: 2" in latency["extra"].splitlines()
    spread = RANGE.match(latency["range"])
    assert spread
    farther = max(value - 600_000, 1_000_000 - value) / 1e6
    assert float(spread["value"]) == pytest.approx(farther, rel=1e-5)
    assert f"baseline: {BASELINE}" in entries[f"{HALVE}: ratio"]["extra"].splitlines()
    assert entries[f"{HALVE}: size"] == {
        "name": f"{HALVE}: size",
        "unit": "MB",
        "value": 3.1e-05,
        "extra": EXTRA,
    }


def test_the_action_compares_what_is_better_when_it_is_smaller() -> None:
    names = {entry["name"]: entry for entry in json.loads(gha.render(exported()))}
    assert f"{HALVE}: metric" not in names
    assert "metric: 0.745 accuracy" in names[f"{HALVE}: latency"]["extra"]
    assert "metric loss: 0.666667 %, at most 0.930176 %" in names[f"{HALVE}: latency"]["extra"]

    records = made.records()
    records[HALVE] = made.made.replaced_quality(records[HALVE], higher_is_better=False)
    entries = {entry["name"]: entry for entry in json.loads(gha.render(benchmarks(rows(), Measurements(records))))}
    assert entries[f"{HALVE}: metric"] == {
        "name": f"{HALVE}: metric",
        "unit": "accuracy",
        "value": 0.745,
        "extra": EXTRA,
    }


def test_a_unit_is_no_markup() -> None:
    found = json.loads(gha.render(exported(metric_name="a|b<i>`\x1b\"'\n")))
    GHA.validate(found)
    told = [line for entry in found for line in entry["extra"].splitlines() if line.startswith("metric: 0.745")]
    assert told == ["metric: 0.745 a?b?i?"]


def at(days: int, found: Sequence[Benchmark], **factors: float) -> list[Benchmark]:
    """Benchmarks as they were measured on another day, with figures of other sizes."""
    day = datetime.datetime.now(datetime.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    time = (day - datetime.timedelta(days=30 - days)).isoformat(timespec="seconds")

    def changed(one: Benchmark) -> Benchmark:
        figures = [
            dataclasses.replace(figure, value=figure.value * factors.get(figure.key, 1)) for figure in one.figures
        ]
        return dataclasses.replace(one, time=time, figures=tuple(figures))

    return [changed(one) for one in found]


def keep(found: Sequence[Benchmark], folder: Path) -> None:
    for path, text in otava.written(found, folder).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def history(folder: Path, cell: str = HALVE) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((folder / f"{cell}.csv").read_text(encoding="utf-8"))))


def config(folder: Path) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((folder / otava.CONFIG).read_text(encoding="utf-8"))


def imported(folder: Path, cell: str) -> dict[str, list[float]]:
    """The series that Otava reads of a cell.

    Source: `create_csv_test_config` in `otava/test_config.py` and `CsvImporter.fetch_data` in `otava/importer.py` of
    https://github.com/apache/otava, version 0.8.0: every column must be there, a value is `float(text)`.
    """
    whole = config(folder)
    test = whole["tests"][cell]
    for name in test["inherit"]:
        test = {**whole["templates"][name], **test}
    assert test["type"] == "csv"
    assert {type(metric["direction"]) for metric in test["metrics"].values()} == {int}
    with Path(test["file"]).open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file, delimiter=",", quotechar='"')
        titles = next(reader)
        lines = list(reader)
    assert "branch" not in titles, "Otava would choose lines by it"
    assert all(len(line) >= len(titles) for line in lines)
    times = [datetime.datetime.fromisoformat(line[titles.index(test["time_column"])]) for line in lines]
    assert times == sorted(times)
    for name in test["attributes"]:
        titles.index(name)
    return {name: [float(line[titles.index(name)]) for line in lines] for name in test["metrics"]}


def test_otava_reads_the_lines_of_several_runs(tmp_path: Path) -> None:
    keep(at(1, exported()), tmp_path)
    keep(at(3, exported(), latency_p50_ns=2), tmp_path)
    keep(at(2, exported(), latency_p50_ns=3), tmp_path)
    row, found = half(), imported(tmp_path, HALVE)
    assert row.latency_p50_ns is not None
    assert found["latency_p50_ns"] == [row.latency_p50_ns * factor for factor in (1, 3, 2)]
    assert found["size_bytes"] == [31, 31, 31]
    assert {name: float(history(tmp_path)[0][name]) for name in otava.INTERVALS} == {
        name: getattr(row, name) for name in otava.INTERVALS
    }
    assert config(tmp_path)["test_groups"] == {"toy": sorted([BASELINE, HALVE, PRUNE])}
    assert config(tmp_path)["tests"][HALVE]["metrics"] == {
        **{key: {"direction": -1} for key in ("latency_p50_ns", "ratio", "model_rss_bytes", "size_bytes")},
        "metric": {"direction": 1},
        "metric_loss": {"direction": -1},
    }


def test_what_was_not_measured_again_has_its_line_already(tmp_path: Path) -> None:
    keep(at(1, exported()), tmp_path)
    keep(at(1, exported(), ratio=3), tmp_path)
    assert [float(line["ratio"]) for line in history(tmp_path)] == [3 * (half().ratio or 0)]


def test_a_column_with_gaps_is_no_metric(tmp_path: Path) -> None:
    keep(at(1, exported()), tmp_path)
    keep(at(2, exported(metric=None, metric_loss=math.nan)), tmp_path)
    found = imported(tmp_path, HALVE)
    assert set(found) == {"latency_p50_ns", "ratio", "model_rss_bytes", "size_bytes"}
    assert [line["metric"] for line in history(tmp_path)] == ["0.745", ""]
    assert "metric" in imported(tmp_path, PRUNE)


def test_cells_and_columns_of_others_stay(tmp_path: Path) -> None:
    keep(at(1, exported()), tmp_path)
    path = tmp_path / f"{HALVE}.csv"
    titles, line = path.read_text().splitlines()
    path.write_text(f"{titles},commit\n{line},=abc\n")
    (tmp_path / "notes.csv").write_text("no history")
    halves = [found for found in exported() if found.cell == HALVE]
    keep(at(1, halves, ratio=3), tmp_path)
    keep(at(2, halves), tmp_path)
    assert [line["commit"] for line in history(tmp_path)] == ["'=abc", ""]
    assert set(config(tmp_path)["tests"]) == {BASELINE, HALVE, PRUNE}
    assert len(imported(tmp_path, PRUNE)["ratio"]) == 1


def test_machines_are_not_mixed(tmp_path: Path) -> None:
    keep(at(1, exported()), tmp_path)
    others = [dataclasses.replace(found, machine="other") for found in at(2, exported())]
    with pytest.raises(InputError, match=r"b2t1\.csv is of .*, not of other; name another folder with --output"):
        otava.written(others, tmp_path)


def test_a_machine_with_an_odd_name_is_known_again(tmp_path: Path) -> None:
    found = [dataclasses.replace(found, machine='=1+1"\x1b\n,') for found in exported()]
    keep(at(1, found), tmp_path)
    keep(at(2, found), tmp_path)
    assert len(imported(tmp_path, HALVE)["ratio"]) == 2


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"\xff", "can't decode"),
        (b"", "no column machine"),
        (b"time,ratio\n2026-01-01,1\n", "no column machine"),
        (b"time,machine\nyesterday,m\n", "isoformat"),
        (b"time,machine\n2026-01-01,m,1\n", "more values than there are titles"),
        (b'time,machine\n2026-01-01,"m\n', "unexpected end of data"),
    ],
)
def test_a_file_that_is_no_history_is_refused(content: bytes, wrong: str, tmp_path: Path) -> None:
    path = tmp_path / f"{HALVE}.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"is no history that `bench export` wrote: .*{wrong}.*; move it away"):
        otava.written(exported(), tmp_path)


def test_quotes_and_control_characters_break_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "a \"b\" #'c': {d}"
    strange = dataclasses.replace(exported()[0], versions={'p"\n,': "1\x1b"}, time="2026-01-01T00:00:00+00:00")
    keep([strange], folder)
    keep(at(2, exported(metric_name='m"\r\n,\x00')), folder)
    assert len(imported(folder, strange.cell)["ratio"]) == 2
    assert history(folder, strange.cell)[0]["versions"] == 'p"\n, 1\\x1b'


def test_the_page_shows_what_is_written() -> None:
    page = (Path(__file__).parents[3] / "docs" / "guard.md").read_text(encoding="utf-8")
    measures, entry = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL))
    BMF.validate(measures)
    GHA.validate([entry])
    ((cell, figures),) = measures.items()
    written = json.loads(bmf.render(exported(metric_name="cer")))[HALVE]
    assert {name: set(figure) for name, figure in figures.items()} == {
        name: set(figure) for name, figure in written.items()
    }
    assert f"```yaml\n{otava.config({cell: [dict.fromkeys(otava.EXPORTED, 1.0)]}, Path('history'))}```" in page


OTAVA = "apache-otava==0.8.0"
ANALYSE = """
import json, sys
from otava.config import load_config_from_file
from otava.importer import CsvImporter
tests = load_config_from_file(sys.argv[1]).tests
series = CsvImporter().fetch_data(tests[sys.argv[2]])
points = series.analyze().change_points_by_time
print(json.dumps({
    "tests": sorted(tests),
    "ratio_low": series.attributes["ratio_low"],
    "changes": [[int(point.index), [change.metric for change in point.changes]] for point in points],
}))
"""


@pytest.mark.thorough
@pytest.mark.slow(seconds=20)
def test_otava_itself_finds_a_change(tmp_path: Path) -> None:
    """With the tool's own configuration and importer, in an environment of its own: it asks for an older NumPy."""
    there, history_folder = tmp_path / "environment", tmp_path / "history"
    try:
        installer.make(installer.resolved([OTAVA], [], sys.executable), there, sys.executable)
    except ArtifactError as error:
        pytest.skip(f"{OTAVA} cannot be installed here: {error}")
    for day in range(20):
        noise = 1 + 0.001 * (day * 7 % 5)
        keep(at(day, exported(), latency_p50_ns=noise * (1.05 if day >= 12 else 1)), history_folder)
    command = [installer.program(there), "-I", "-c", ANALYSE, history_folder / otava.CONFIG, HALVE]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["tests"] == sorted([BASELINE, HALVE, PRUNE])
    assert found["ratio_low"] == [str(half().ratio_low)] * 20
    assert found["changes"] == [[12, ["latency_p50_ns"]]]
