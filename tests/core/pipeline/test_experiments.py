"""Published experiments: their cells are cells, and each has its table."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from bench.api.errors import InputError
from bench.measure.comparison import CELL
from bench.pipeline import experiments, selection, sweeps
from bench.records import assemble
from bench.records.rows import COLUMNS
from bench.records.store import Record
from bench.report import experiments as report
from support import records as made


def stored(cell: sweeps.Cell) -> Record:
    """A record of a cell; the baseline of its task ran beside it."""
    reference = f"{cell.task}/torch/native/raw/pytorch/cpu/b1t1"
    if cell.path == reference:
        record: Record = made.baseline(cell.path)
    else:
        record = made.record(cell.path, *(made.launch(block, CELL, 500, reference=reference) for block in "ab"))
    counts = {"Conv": 5, "Add": 1, "Shape": 2} if cell.variant == "raw" else {"Conv": 5, "Gemm": 1}
    size = 2_000_000 if cell.variant == "raw" else 1_500_000
    return made.with_artifact(record, operators=counts, size_bytes=size)


def test_cells_exist_and_columns_do() -> None:
    """Every name in a path is a plugin's, and what does not fit together is refused."""
    for cell in sweeps.seed():
        assert selection.select([cell.path], None) == [cell]
    for experiment in experiments.EXPERIMENTS:
        assert set(experiment.columns) <= set(COLUMNS)
        assert experiment.columns or len(experiment.cells) == 2
    assert len(sweeps.seed()) == len(set(sweeps.seed())) > 15


def test_each_experiment_has_its_table() -> None:
    records = {cell.path: stored(cell) for cell in sweeps.seed()}
    text = report.render(assemble.rows(records), records, format="md")
    titles = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert titles == [experiment.title for experiment in experiments.EXPERIMENTS]
    order = [line.split("|")[2].strip() for line in text.splitlines() if line.startswith("| 1 ")]
    assert order[0] == "tf/native/raw/tensorflow/cpu", "in the published order, not by speed"
    operators = text[text.index("Operators before and after") :].splitlines()
    assert operators[2] == "| operator | before | after | change |"
    assert operators[4:10] == [
        "| Add | 1 | 0 | -1 |",
        "| Conv | 5 | 5 |  |",
        "| Gemm | 0 | 1 | +1 |",
        "| Shape | 2 | 0 | -2 |",
        "| all | 8 | 6 | -2 |",
        "| file (MB) | 2.00 | 1.50 | -0.50 |",
    ]


def test_missing_results_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    first = experiments.EXPERIMENTS[0]
    records = {cell.path: stored(cell) for cell in sweeps.seed() if cell.path in first.cells}
    text = report.render(assemble.rows(records), records, format="table")
    assert first.title.upper() in text
    assert text.count("No result of") >= 2
    with pytest.raises(InputError, match="bench run --sweep seed"):
        report.render([], {}, format="md")
    with pytest.raises(InputError, match="md or table, not csv"):
        report.render(assemble.rows(records), records, format="csv")


def test_artifact_that_could_not_be_made_has_no_operators() -> None:
    records = {cell.path: stored(cell) for cell in sweeps.seed()}
    (path,) = {one.cells[1] for one in experiments.EXPERIMENTS if not one.columns and "albert" in one.cells[1]}
    header = replace(records[path].header, artifact=None)
    records[path] = dataclasses.replace(records[path], header=header)
    text = report.render(assemble.rows(records), records, format="md")
    assert text.count("One of the two could not be made") == 1
