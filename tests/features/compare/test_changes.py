"""Changes between two folders of results: verdicts on latency, and changes of status, fidelity, metric and size."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.api.errors import InputError
from bench.cli import main
from bench.features.compare import changes as compared
from bench.features.compare import render as compared_table
from bench.features.compare import worst
from bench.features.compare.changes import Change, Compared
from bench.measure.comparison import CELL
from bench.records.lines import Failure
from bench.records.store import Record, Store
from bench.report import writing
from support import records as made

BASELINE, HALVE, PRUNE, OTHER_GROUP = made.BASELINE, made.HALVE, made.PRUNE, made.OTHER_GROUP
THIRD = "toy/null/native/third/null/cpu/b2t1"
MACHINE = {"processor": "Fast", "num_cores": 2, "memory_gib": 24}
FAILURE = Failure(stage="verify", reason="segmentation fault")


def cell(path: str, *factors: float, blocks: tuple[str, ...] = ("a", "b"), **more: Any) -> Record:
    """A cell that takes so many times as long as the baseline, in each block or in one after the other."""
    speeds = {"a": 1_000_000, "b": 2_000_000, "c": 1_000_000}
    each = dict(zip(blocks, factors if len(factors) > 1 else factors * len(blocks), strict=True))
    lines = [made.launch(block, CELL, round(factor * speeds[block])) for block, factor in each.items()]
    return made.record(path, *lines, **more)


def baseline(path: str = BASELINE, slow: int = 1) -> Record:
    return made.baseline(path, a=slow * 1_000_000, b=slow * 2_000_000, c=slow * 1_000_000)


def store(folder: Path, *records: Record, machine: dict[str, Any] = MACHINE, **header: Any) -> Path:
    """Results with these records, each line as a sweep would have written it."""
    kept = Store(folder, "here")
    kept.folder.mkdir(parents=True)
    for record in records:
        key = record.cell.path.replace("/", "-")
        first = replace(record.header, **{"key": key, "machine": machine, **header})
        lines = (first, record.quality, *record.launches, record.failure)
        for line in filter(None, lines):
            kept.append(key, line)
    return folder


@pytest.fixture
def compare(tmp_path: Path) -> Callable[..., Compared]:
    """Compares two lists of records as folders A and B."""

    def called(before: list[Record], after: list[Record], *globs: str) -> Compared:
        old, new = store(tmp_path / "A", *before), store(tmp_path / "B", *after)
        return compared.folders(old, new, globs, margin=0.2, force=False)

    return called


def of(found: Compared, path: str) -> Change:
    (change,) = [change for change in found.changes if change.cell == path]
    return change


def test_slower_first_and_no_verdict_for_the_baseline(compare: Callable[..., Compared]) -> None:
    """In B the machine is three times as slow, which is no news."""
    slow = [
        dataclasses.replace(
            one,
            launches=[
                replace(line, steady_ns=[[3 * ns for ns in burst] for burst in line.steady_ns]) for line in one.launches
            ],
        )
        for one in (cell(HALVE, 1.5), cell(PRUNE, 1.2), cell(THIRD, 2.1))
    ]
    found = compare([baseline(), cell(HALVE, 0.5), cell(PRUNE, 1.5), cell(THIRD, 2.1)], [baseline(slow=3), *slow])
    verdicts = {change.cell: change.verdict for change in found.changes}
    assert verdicts == {HALVE: "slower", PRUNE: "faster", THIRD: "noise", BASELINE: None}
    assert list(verdicts) == [HALVE, PRUNE, THIRD, BASELINE]
    ratios = [change.judged.ratio.value for change in found.changes if change.judged]
    assert ratios == pytest.approx([3.0, 0.8, 1.0], rel=1e-5)
    assert of(found, BASELINE).is_baseline
    assert found.has_worse
    text = compared_table.render(found, format="table")
    assert text.index(HALVE) < text.index(PRUNE) < text.index(THIRD) < text.index(BASELINE)
    assert "3 cells compared: 1 slower, 1 faster, 0 undecided, 1 noise." in text
    assert "the medians beside it are for orientation alone" in " ".join(text.split())
    row = next(line.split() for line in text.splitlines() if line.startswith(BASELINE))
    assert row[1:] == ["1.26", "3.78", "3", "1.000", writing.DASH], "its medians, and how its cells moved"


def test_correction_counts_the_cells(tmp_path: Path) -> None:
    paths = [f"toy/null/native/v{number}/null/cpu/b2t1" for number in range(8)]
    before = [baseline(), *(cell(path, 1.0, 1.02, 1.01, blocks=("a", "b", "c")) for path in paths)]
    changed = cell(paths[0], 1.04, 1.06, 1.05, blocks=("a", "b", "c"))
    old = store(tmp_path / "A", *before)
    new = store(tmp_path / "B", baseline(), changed, *before[2:])
    alone = of(compared.folders(old, new, [paths[0]], margin=0.02, force=False), paths[0])
    among = of(compared.folders(old, new, margin=0.02, force=False), paths[0])
    assert alone.judged is not None
    assert among.judged is not None
    assert alone.judged.ratio.value == among.judged.ratio.value
    assert alone.judged.p_value is not None
    assert among.judged.p_value == pytest.approx(min(1.0, 8 * alone.judged.p_value))


def test_what_failed_is_worse_and_what_was_mended_is_not(compare: Callable[..., Compared]) -> None:
    failed = made.record(PRUNE, quality=None, failure=FAILURE, artifact=False)
    found = compare(
        [baseline(), cell(HALVE, 0.5), failed], [baseline(), made.record(HALVE, failure=FAILURE), cell(PRUNE, 1)]
    )
    halve, prune = of(found, HALVE), of(found, PRUNE)
    assert (halve.newly_failed, halve.mended, halve.verdict, halve.note) == (True, False, None, "failed in B")
    assert (prune.newly_failed, prune.mended, prune.note) == (False, True, "failed in A")
    assert found.has_worse
    text = compared_table.render(found, format="md")
    assert f"| {HALVE.replace('_', chr(92) + '_')} | status | ok | failed: segmentation fault |" in text
    assert "0 cells compared" in text
    assert "1 newly failed, 1 mended" in text
    assert "Not compared" not in text, "their reasons are told already"


def test_mended_alone_is_no_reason_to_fail(compare: Callable[..., Compared]) -> None:
    assert not compare([baseline(), made.record(PRUNE, failure=FAILURE)], [baseline(), cell(PRUNE, 1)]).has_worse


def test_broken_outputs_are_worse(compare: Callable[..., Compared]) -> None:
    broken = cell(HALVE, 0.1, quality=made.quality(fidelity="broken", reason="not finite"))
    found = compare([baseline(), cell(HALVE, 0.5)], [baseline(), broken])
    assert of(found, HALVE).newly_failed
    assert of(found, HALVE).verdict is None, "a broken cell is not ranked, however fast it is"
    assert found.has_worse
    still = Change(cell=HALVE, before=of(found, HALVE).after, after=of(found, HALVE).after)
    assert not still.newly_failed


def test_metric_size_and_fidelity_are_told(compare: Callable[..., Compared]) -> None:
    other = cell(HALVE, 0.5, quality=made.quality(fidelity="drifted", metrics={"accuracy": 0.5, "other": 9.0}))
    other = made.with_artifact(other, size_bytes=62)
    same = cell(PRUNE, 1.0, quality=made.quality(metrics={"accuracy": 0.75 + 1e-9, "other": 3.0}))
    text = compared_table.render(
        compare([baseline(), cell(HALVE, 0.5), cell(PRUNE, 1.0)], [baseline(), other, same]), format="md"
    )
    name = HALVE.replace("_", "\\_")
    for line in ("fidelity | close | drifted", "accuracy | 0.75 | 0.5", "size | 3.1e-05 MB | 6.2e-05 MB"):
        assert f"| {name} | {line} |" in text
    assert "Changed otherwise (3)" in text


def test_cells_of_one_folder_only(compare: Callable[..., Compared]) -> None:
    found = compare([baseline(), cell(HALVE, 0.5)], [baseline(), made.record(PRUNE, failure=FAILURE)])
    assert of(found, HALVE).after is None
    assert of(found, PRUNE).before is None
    text = compared_table.render(found, format="table")
    assert "Only in A (1)" in text
    assert "Only in B (1)" in text
    assert "failed: segmentation fault" in text
    assert "1 only in A, 1 only in B" in text
    assert not found.has_worse


def test_other_or_missing_baselines(compare: Callable[..., Compared]) -> None:
    beside = made.record(HALVE, *[made.launch(block, CELL, 500, reference=PRUNE) for block in "ab"])
    found = compare([baseline(), cell(HALVE, 0.5), cell(THIRD, 2.0)], [made.baseline(PRUNE), beside])
    assert of(found, HALVE).note == f"measured beside {BASELINE} in A, and beside {PRUNE} in B"
    text = compared_table.render(found, format="md").replace("\\", "")
    assert "Not compared (1)" in text
    assert f"| measured beside {BASELINE} in A, and beside {PRUNE} in B | 1 | {HALVE} |" in text


def test_baseline_that_is_gone(tmp_path: Path) -> None:
    old, new = store(tmp_path / "A", baseline(), cell(HALVE, 0.5)), store(tmp_path / "B", cell(HALVE, 0.5))
    change = of(compared.folders(old, new, margin=0.02, force=False), HALVE)
    assert (change.verdict, change.note) == (None, f"its baseline {BASELINE} is not among the results of B")


def test_same_graphs_are_judged_once(compare: Callable[..., Compared]) -> None:
    """PRUNE is HALVE's graph in both; THIRD is so in A alone, where it has HALVE's latency."""
    same: dict[str, Any] = {"canonical": "graph"}
    before = [baseline(), cell(HALVE, 0.5, **same), made.record(PRUNE, **same), made.record(THIRD, **same)]
    after = [baseline(), cell(HALVE, 0.5, **same), made.record(PRUNE, **same), cell(THIRD, 0.75, canonical="other")]
    found = compare(before, after)
    assert of(found, PRUNE).note == "the same graph as another cell, in both"
    assert of(found, HALVE).same_file is True
    third = of(found, THIRD)
    assert (third.verdict, third.same_file) == ("slower", False)
    assert third.judged is not None
    assert third.judged.ratio.value == pytest.approx(1.5, rel=1e-5)
    assert third.before is not None
    assert third.before.latency_p50_ns == of(found, HALVE).before.latency_p50_ns  # type: ignore[union-attr]


def test_different_machines_are_refused_unless_forced(tmp_path: Path) -> None:
    old = store(tmp_path / "A", baseline(), cell(HALVE, 0.5))
    new = store(tmp_path / "B", baseline(), cell(HALVE, 0.5), machine={**MACHINE, "num_cores": 64})
    with pytest.raises(InputError, match=r"Fast, 2 cores, 24 GiB.*Fast, 64 cores, 24 GiB.*--force"):
        compared.folders(old, new, margin=0.02, force=False)
    forced = compared.folders(old, new, margin=0.2, force=True)
    assert of(forced, HALVE).verdict == "noise"
    assert "warning: different machines" in compared_table.render(forced, format="table")


def test_what_else_differs_is_said(tmp_path: Path) -> None:
    old = store(tmp_path / "A", baseline(), cell(HALVE, 0.5), versions={"python": "3.12", "onnxruntime": "1.22"})
    new = store(
        tmp_path / "B",
        made.record(BASELINE, *baseline().launches, subject="others"),
        cell(HALVE, 0.5, subject="others"),
        versions={"python": "3.12", "onnxruntime": "1.23"},
    )
    found = compared.folders(old, new, margin=0.02, force=False)
    assert found.remarks == ("onnxruntime 1.22 in A, 1.23 in B (2 cells)", "toy: other weights, data or code in B")


def test_json_has_everything_and_no_endless_number(tmp_path: Path) -> None:
    lone = cell(PRUNE, 1.0, blocks=("a",))
    old = store(tmp_path / "A", made.baseline(a=1_000_000), cell(HALVE, 0.5, blocks=("a",)), lone)
    new = store(tmp_path / "B", made.baseline(a=1_000_000), cell(HALVE, 0.6, blocks=("a",)), lone)
    content = json.loads(compared_table.render(compared.folders(old, new, margin=0.02, force=False), format="json"))
    assert (content["counts"]["slower"], content["counts"]["undecided"]) == (1, 1)
    rows = {row["cell"]: row for row in content["cells"]}
    assert rows[HALVE]["ratio"] == pytest.approx(1.2, rel=1e-5)
    assert rows[HALVE]["verdict"] == "slower"
    assert 0 < rows[HALVE]["p_adjusted"] < 0.05, "one launch is enough for a large difference"
    assert rows[HALVE]["before"]["latency_p50_ns"] == pytest.approx(500_001)
    assert rows[BASELINE]["is_baseline"] is True
    assert content["a"].pop("measured").startswith("Measured on Fast, 2 cores; 20")
    assert content["a"] == {"name": str(tmp_path / "A"), "machine": "here", "cells": 3}
    assert all(isinstance(row["ratio"], float | None) for row in content["cells"])


def test_json_tells_what_is_lost_with_its_unit(tmp_path: Path) -> None:
    judged = made.quality(metric_loss=0.05, metric_loss_unit="dB")
    old = store(tmp_path / "A", baseline(), cell(HALVE, 0.5, quality=judged))
    new = store(tmp_path / "B", baseline(), cell(HALVE, 0.5, quality=made.quality(metric_loss=0.05)))
    content = json.loads(compared_table.render(compared.folders(old, new, margin=0.2, force=False), format="json"))
    (row,) = [row for row in content["cells"] if row["cell"] == HALVE]
    told = [(row[side]["metric_loss"], row[side]["metric_loss_unit"]) for side in ("before", "after")]
    assert told == [(0.05, "dB"), (0.05, "share")]


def test_long_lists_are_cut(compare: Callable[..., Compared]) -> None:
    paths = [f"toy/null/native/v{number:02}/null/cpu/b2t1" for number in range(25)]
    found = compare([baseline(), *(made.record(path) for path in paths)], [baseline()])
    text = compared_table.render(found, format="table")
    assert "Only in A (25)" in text
    assert paths[19] in text
    assert paths[20] not in text
    assert "5 more; --format json has them all" in text
    assert paths[24] in compared_table.render(found, format="json")


def test_two_cells_of_one_folder(tmp_path: Path) -> None:
    results = store(tmp_path / "A", baseline(), cell(HALVE, 0.5), cell(PRUNE, 0.6), made.record(OTHER_GROUP))
    found = compared.cells(results, HALVE, PRUNE, margin=0.02)
    assert found.changes[0].verdict == "slower"
    assert found.changes[0].judged is not None
    assert found.changes[0].judged.ratio.value == pytest.approx(1.2, rel=1e-5)
    assert compared.cells(results, PRUNE, HALVE, margin=0.02).changes[0].verdict == "faster"
    assert compared.cells(results, BASELINE, HALVE, margin=0.02).changes[0].verdict == "faster"
    assert compared.cells(results, HALVE, BASELINE, margin=0.02).changes[0].verdict == "slower"
    with pytest.raises(InputError, match="answer different requests"):
        compared.cells(results, HALVE, OTHER_GROUP, margin=0.02)
    with pytest.raises(InputError, match=f"no result for '{THIRD}'.*bench run {THIRD}"):
        compared.cells(results, HALVE, THIRD, margin=0.02)


def test_two_cells_that_cannot_be_compared(tmp_path: Path) -> None:
    records = [baseline(), cell(HALVE, 0.5, canonical="graph"), made.record(PRUNE, canonical="graph")]
    results = store(tmp_path / "A", *records, made.record(THIRD, failure=FAILURE))
    same = compared.cells(results, HALVE, PRUNE, margin=0.02).changes[0]
    assert (same.judged, same.same_file) == (None, True)
    assert "the same graph" in str(same.note)
    assert compared.cells(results, HALVE, THIRD, margin=0.02).changes[0].note == "failed in B"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The exit code of the command."""
    monkeypatch.setattr(sys, "argv", ["bench", "compare", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    return int(stopped.value.code or 0)


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    old = store(tmp_path / "A", baseline(), cell(HALVE, 0.5), cell(PRUNE, 1.0))
    new = store(tmp_path / "B", baseline(), cell(HALVE, 0.6), cell(PRUNE, 1.0))
    assert run(monkeypatch, old, new) == 0
    assert "1 slower" in capsys.readouterr().out
    assert run(monkeypatch, old, new, "--strict") == 1
    assert run(monkeypatch, new, old, "--strict") == 0, "faster is not worse"
    assert run(monkeypatch, old, new, "*/prune/*", "--strict") == 0
    capsys.readouterr()
    assert run(monkeypatch, HALVE, PRUNE, "--results", old, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["cells"][0]["ratio"] == pytest.approx(2.0, rel=1e-5)


def test_a_comparison_is_not_lost_where_the_search_for_the_part_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = store(tmp_path / "A", baseline(), cell(HALVE, 0.5))
    new = store(tmp_path / "B", baseline(), cell(HALVE, 0.6))

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(worst, "blamed", stopped)
    assert run(monkeypatch, old, new, "--blame") == 130
    assert "1 slower" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["A", "none"], "none is no folder; A and B are two folders of results, two cells, or two git revisions"),
        (["A", HALVE], "is no folder"),
        (["A", "empty"], "no results in empty"),
        (["A", "B", "*/double/*"], "no result matches '*/double/*'"),
        ([HALVE, PRUNE, "*", "--results", "A"], "leave the globs out"),
        (["A", "B", "--dim", "n=1"], "name it with --model"),
        (["A", "B", "--margin", "much"], "not a share: 'much'"),
    ],
)
def test_wrong_usage(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("A", "B"):
        store(tmp_path / name, baseline(), cell(HALVE, 0.5), cell(PRUNE, 1.0))
    (tmp_path / "empty").mkdir()
    assert run(monkeypatch, *arguments) == 2
    errors = capsys.readouterr().err
    assert says in errors
    assert errors.count("\n") == 1


def test_twin_that_was_not_timed_either(compare: Callable[..., Compared]) -> None:
    """In A two graphs, both timed; in B they are the same one, and the time was up before either."""
    timed = [baseline(), cell(HALVE, 0.5, canonical="one"), cell(PRUNE, 0.5, canonical="other")]
    untimed = [baseline(), made.record(HALVE, canonical="one"), made.record(PRUNE, canonical="one")]
    found = compare(timed, untimed)
    assert [of(found, path).note for path in (HALVE, PRUNE)] == ["not timed in B"] * 2
