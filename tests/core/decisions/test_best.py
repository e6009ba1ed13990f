"""What to ship: the fastest cell that keeps its metric, against each framework's default."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.api.errors import InputError
from bench.api.loss_units import AllowedLoss
from bench.decisions import best
from bench.decisions.best import Best
from bench.measure.comparison import CELL
from bench.records import assemble, ranking
from bench.records.lines import Failure
from bench.records.measurements import Measurements
from bench.records.metric_loss import Lost
from bench.records.store import Record
from bench.report import best as report
from bench.report import outcome
from support import records as made

TORCH = "super_resolution/torch/native/raw/pytorch/cpu/b1t1"
TF = "super_resolution/tf/native/raw/tensorflow/cpu/b1t1"
ORT = "super_resolution/torch/torch_onnx/{}/onnxruntime/cpu/b1t1"
BLOCKS = {"a": 1000, "b": 2000, "c": 1500}
DEFAULT = AllowedLoss()


def cell(path: str, factor: float, *, lost: float | None = 0.0, **more: Any) -> Record:
    launches = [made.launch(block, CELL, round(ns * factor), reference=TORCH) for block, ns in BLOCKS.items()]
    found: Record = made.record(path, *launches, quality=made.quality(metric_loss=lost), **more)
    return found


def best_of(*cells: Record, max_metric_loss: AllowedLoss = DEFAULT) -> list[Best]:
    records = [made.baseline(TORCH, **BLOCKS), *cells]
    return best_in({record.cell.path: record for record in records}, max_metric_loss)


def best_in(records: Mapping[str, Record], max_metric_loss: AllowedLoss = DEFAULT) -> list[Best]:
    measurements = Measurements(records)
    rows = assemble.rows(records, measurements=measurements)
    return best.best(measurements, rows, max_metric_loss=max_metric_loss)


def test_fastest_of_those_that_keep_the_metric() -> None:
    (found,) = best_of(
        cell(TF, 1.25),
        cell(ORT.format("raw"), 0.5, lost=0.01),
        cell(ORT.format("int8_dynamic"), 0.25, lost=0.011),
        cell(ORT.format("onnxsim"), 0.2, lost=None),
        cell(ORT.format("fp16"), 0.1, lost=0.0, failure=Failure(stage="verify", reason="no")),
    )
    assert found.row.cell == ORT.format("raw")
    assert found.others == ()
    assert list(found.over) == ["tf", "torch"]
    torch, tf = found.over["torch"], found.over["tf"]
    assert torch is not None
    assert tf is not None
    assert torch.value == pytest.approx(0.5, rel=0.01)
    assert tf.value == pytest.approx(0.5 / 1.25, rel=0.01)
    assert torch.low <= torch.value <= torch.high


def test_allowed_loss_decides() -> None:
    cells = [cell(ORT.format("raw"), 0.5), cell(ORT.format("int8_dynamic"), 0.25, lost=0.011)]
    assert [best_of(*cells, max_metric_loss=AllowedLoss(share=share))[0].row.variant for share in (0.01, 0.02)] == [
        "raw",
        "int8_dynamic",
    ]


def wobbling(path: str, factor: float, wobble: float) -> Record:
    """A cell whose launches differ by up to `wobble`."""
    each = zip(BLOCKS.items(), (1 + wobble, 1 - wobble, 1.0), strict=True)
    launches = [
        made.launch(block, CELL, round(1000 * ns * factor * more), reference=TORCH) for (block, ns), more in each
    ]
    return made.record(path, *launches, quality=made.quality(metric_loss=0.0))


def beside(*cells: Record) -> Best:
    blocks = {block: 1000 * ns for block, ns in BLOCKS.items()}
    (found,) = best_in({record.cell.path: record for record in (made.baseline(TORCH, **blocks), *cells)})
    return found


def test_cells_that_may_be_as_fast_are_named() -> None:
    """One differs by 0.1 % with quiet launches; of the other's launches one is 20 % slower than another."""
    first, unclear = wobbling(ORT.format("raw"), 0.5, 0.0), wobbling(ORT.format("onnxslim"), 0.51, 0.1)
    found = beside(first, unclear, wobbling(TF, 1.25, 0.01))
    assert (found.row.variant, found.others) == ("raw", (ORT.format("onnxslim"),))
    assert "raw/onnxruntime/cpu (1 other may be as fast)" in report.render([found], format="table")


def test_interval_over_a_default_allows_for_the_selection() -> None:
    """Five cells that may each have been selected widen the interval, and cells far behind do not."""
    near = [wobbling(ORT.format(f"v{number}"), 0.5, 0.01) for number in range(5)]
    far = [wobbling(ORT.format(f"v{number}"), 0.9, 0.01) for number in range(1, 5)]
    widths = []
    for cells in ([near[0], *far], near):
        found = beside(*cells).over["torch"]
        assert found is not None
        widths.append(found.half_width)
    assert widths[1] > 1.2 * widths[0]


def test_a_request_without_a_cell_that_keeps_its_metric_is_told() -> None:
    path = ORT.format("raw")
    records = {one.cell.path: one for one in (made.baseline(TORCH, **BLOCKS), cell(path, 0.5, lost=0.02))}
    records[TORCH] = dataclasses.replace(records[TORCH], quality=made.quality(metric_loss=0.02))
    rows = assemble.rows(records, measurements=Measurements(records))
    groups = ranking.select(rows).groups
    found = best_in(records)
    assert found == []
    assert [*report.missing(found, groups, max_metric_loss=AllowedLoss())] == [
        "super_resolution, batch 1, 1 thread: no cell loses at most 1 % of its metric for sure; "
        "`bench pick super_resolution --max-metric-drop 1%` says why"
    ]
    kept = best_in(records, max_metric_loss=AllowedLoss(share=0.02))
    assert [*report.missing(kept, groups, max_metric_loss=AllowedLoss(share=0.02))] == []


def test_default_itself_may_be_the_best_and_the_other_missing() -> None:
    baseline = made.baseline(TORCH, **BLOCKS)
    assert best_of() == []  # its quality says nothing of a lost metric: an old record
    exact = made.record(TORCH, *baseline.launches, quality=made.quality(metric_loss=0.0))
    (found,) = best_in({TORCH: exact})
    assert found.row.cell == TORCH
    text = report.render([found], format="md")
    assert "itself" in text
    assert "TensorFlow" not in text


def test_a_model_that_is_not_here_any_more_is_held_against_its_baseline() -> None:
    """Its sources are not known, as those of a user's model are not after the run; the stored rows say what it was."""
    own, fast = (f"gone/onnx/native/{variant}/onnxruntime/cpu/b1t1" for variant in ("raw", "fp16"))
    launches = [made.launch(block, CELL, ns // 2, reference=own) for block, ns in BLOCKS.items()]
    records = {
        own: made.baseline(own, **BLOCKS),
        fast: made.record(fast, *launches, quality=made.quality(metric_loss=0.0)),
    }
    (found,) = best_in(records)
    assert found.row.cell == fast
    over = found.over["onnx"]
    assert over is not None
    assert math.isclose(over.value, 0.5, rel_tol=0.01)
    assert "0.500 [" in report.render([found], format="table")


def test_table() -> None:
    quality = made.quality(metric_loss=0.004, metrics={"accuracy": 0.9962})
    launches = [made.launch(block, CELL, ns * 2000, reference=TORCH) for block, ns in BLOCKS.items()]
    slow = made.record(TF, *launches, quality=quality)
    (found,) = best_of(slow)
    assert found.row.cell == TF
    lines = report.render([found], format="md").splitlines()
    assert lines[0] == (
        "| task | best deployment | latency | times as fast as TensorFlow | times as fast as PyTorch "
        "| metric | how sure |"
    )
    cells = [text.strip() for text in lines[2].strip("|").split("|")]
    assert cells[0] == r"super\_resolution"
    assert cells[1:4] == ["TensorFlow, 1 thread", "2.88 ms", "itself"]
    value, low, high = (float(text.strip("[],")) for text in cells[4].split())
    assert low < value < high
    assert math.isclose(value, 1 / 2000, rel_tol=0.01), "it takes 2000 times as long"
    assert cells[5:] == [
        "Accuracy 99.62 % (0.4 % worse, no bound: an earlier version verified it)",
        "no other within the limits is faster",
    ]
    assert lines[3:] == ["", r"super\_resolution: tf/native/raw/tensorflow/cpu"]
    with pytest.raises(InputError, match="keeps its metric"):
        report.render([], format="md")


def test_table_says_how_much_of_the_metric_may_be_lost() -> None:
    lost = Lost(num_samples=720, score=0.93, most=1.0)
    quality = made.quality(metric_loss=0.0, lost=lost)
    launches = [made.launch(block, CELL, ns * 2000, reference=TORCH) for block, ns in BLOCKS.items()]
    cell = made.record(TF, *launches, quality=quality)
    (found,) = best_of(cell, max_metric_loss=AllowedLoss(share=0.0045))
    assert found.row.cell == TF
    assert "Accuracy 75 % (at most 0.45 % worse)" in report.render([found], format="md")
    assert best_of(cell, max_metric_loss=AllowedLoss(share=0.004)) == []


@pytest.mark.parametrize(
    ("high", "said"), [(0.01, "at most 1 % worse"), (0.0, ""), (-0.002, "at least 0.2 % better"), (None, "")]
)
def test_the_bound_of_a_metric_is_in_words(high: float | None, said: str) -> None:
    (found,) = best_of(cell(TF, 1.25))
    assert outcome.metric_bound(dataclasses.replace(found.row, metric_loss_high=high, metric_loss_note=None)) == said


def test_default_is_itself_however_noisy_the_controls_are() -> None:
    lines = made.baseline(TORCH, **BLOCKS).launches
    noisy = [
        replace(line, steady_ns=[[1.1 * ns for ns in burst] for burst in line.steady_ns])
        if line.role == "control" and line.block == "b"
        else line
        for line in lines
    ]
    exact = made.record(TORCH, *noisy, quality=made.quality(metric_loss=0.0))
    (found,) = best_in({TORCH: exact})
    torch = found.over["torch"]
    assert torch is not None
    assert (torch.value, torch.low, torch.high) == (1.0, 1.0, 1.0)


def test_over_two_baselines_latency_ranks() -> None:
    """Beside a slow baseline any cell looks good."""
    slow = made.baseline(TF, d=100_000)
    beside_slow = made.record(
        ORT.format("onnxsim"),
        made.launch("d", CELL, 20_000, reference=TF),
        quality=made.quality(metric_loss=0.0),
    )
    (found,) = best_of(cell(ORT.format("raw"), 0.5), slow, beside_slow)
    assert found.row.variant == "raw"


def test_precision_below_float32_is_said() -> None:
    quality = made.quality(metric_loss=0.0, precision="int8")
    launches = [made.launch(block, CELL, ns // 2, reference=TORCH) for block, ns in BLOCKS.items()]
    (found,) = best_of(made.record(ORT.format("int8_dynamic"), *launches, quality=quality))
    assert "| ONNX Runtime, int8, 1 thread |" in report.render([found], format="md")


MARKS = ("<!-- bench best: begin -->", "<!-- bench best: end -->")


def test_table_goes_between_its_marks(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    begin, end = MARKS
    path.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    assert report.put_into(path, "| new |\n") == f"before\n{begin}\n| new |\n{end}\nafter\n"
    with pytest.raises(InputError, match="<!-- bench other: begin -->"):
        report.put_into(path, "| new |\n", name="other")


@pytest.mark.parametrize("text", ["", "{0}", "{1} {0}", "{0} {1} {1}", "{0} {0} {1}"])
def test_file_without_its_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "README.md"
    path.write_text(text.format(*MARKS))
    with pytest.raises(InputError, match="must hold the lines"):
        report.put_into(path, "new")


def test_the_processor_and_the_days_stand_above_the_deployments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    facts = {"processor": "AMD EPYC", "family": ["26", "2", "1"], "num_cores": 2}
    found = cell(ORT.format("raw"), 0.5)
    found = dataclasses.replace(found, header=replace(found.header, machine=facts))
    (shown,) = best_of(found)
    days = sorted(str(launch.time)[:10] for launch in found.launches)
    said = f"Measured on AMD EPYC, Zen 5 (family 26, model 2), 2 cores; {days[0]} to {days[-1]}."
    for format in ("md", "table"):
        text = report.render([shown], format=format)
        assert " ".join(text.split()).startswith(said)
        assert format == "md" or max(map(len, text.splitlines())) <= 80
