"""Families of rows at several sizes, and the sizes where another deployment is the fastest."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.decisions.sizes import Family, families
from bench.measure.comparison import CELL
from bench.records import assemble
from bench.records.lines import Failure
from bench.records.measurements import Measurements
from bench.records.store import Record
from bench.report import sizes as report
from bench.report.figures import size_plots
from support import records as made

BLOCKS = {"a": 1000, "b": 2000, "c": 1500, "d": 1700}
BASE = "{task}/torch/native/raw/pytorch/cpu/b1t1"
ORT = "{task}/torch/torch_onnx/raw/onnxruntime/cpu/b1t1"
OPENVINO = "{task}/torch/torch_onnx/raw/openvino/cpu/b1t1"


def request(task: str, *, ort: float, openvino: float | None, loss: float = 0.0) -> list[Record]:
    """Records of one request whose baseline takes a time of 1."""
    base = BASE.format(task=task)
    found = [made.baseline(base, **BLOCKS)]
    for path, factor in ((ORT, ort), (OPENVINO, openvino)):
        if factor is not None:
            launches = [made.launch(block, CELL, round(ns * factor), reference=base) for block, ns in BLOCKS.items()]
            quality = made.quality(metric_loss=loss if path == OPENVINO else 0.0)
            found.append(made.record(path.format(task=task), *launches, quality=quality))
    return found


def families_of(*requests: list[Record]) -> list[Family]:
    records = {record.cell.path: record for request in requests for record in request}
    measurements = Measurements(records)
    return families(measurements, assemble.rows(records, measurements=measurements))


def crossing() -> list[Family]:
    return families_of(
        request("albert@tokens=256", ort=0.4, openvino=0.8),
        request("albert@tokens=16", ort=0.8, openvino=0.4),
        request("albert@tokens=64", ort=0.5, openvino=0.4),
    )


def test_order_that_changes_is_told_with_the_size() -> None:
    (family,) = crossing()
    assert (family.task, family.dim, family.others) == ("albert", "tokens", "batch 1, 1 thread")
    assert list(family.groups) == [16, 64, 256]
    assert family.near == {
        16: ["torch/torch_onnx/raw/openvino/cpu"],
        64: ["torch/torch_onnx/raw/openvino/cpu"],
        256: ["torch/torch_onnx/raw/onnxruntime/cpu"],
    }
    openvino, ort = family.stretches
    assert (openvino.deployment, openvino.sizes) == ("torch/torch_onnx/raw/openvino/cpu", (16, 64))
    assert openvino.after is None
    assert (ort.deployment, ort.sizes) == ("torch/torch_onnx/raw/onnxruntime/cpu", (256,))
    assert ort.after is not None
    assert ort.after.value == pytest.approx(2, rel=0.01)
    assert ort.after.low <= ort.after.value <= ort.after.high


def test_deployment_that_is_near_the_fastest_everywhere_needs_no_change() -> None:
    (family,) = families_of(
        request("albert@tokens=16", ort=0.402, openvino=0.4), request("albert@tokens=64", ort=0.4, openvino=0.8)
    )
    (only,) = family.stretches
    assert (only.deployment, only.sizes) == ("torch/torch_onnx/raw/onnxruntime/cpu", (16, 64))
    assert "onnxruntime/cpu is at every tokens the fastest" in " ".join(report.words(family))


def test_deployment_that_loses_the_metric_decides_nothing() -> None:
    (family,) = families_of(*(request(f"albert@tokens={size}", ort=0.5, openvino=0.2, loss=0.02) for size in (16, 64)))
    assert [stretch.deployment for stretch in family.stretches] == ["torch/torch_onnx/raw/onnxruntime/cpu"]


def test_family_for_every_dimension_that_varies() -> None:
    found = families_of(
        *(request(f"crnn@h={h},w={w}", ort=0.5, openvino=None) for h in (1, 2) for w in (3, 4)),
        request("crnn", ort=0.5, openvino=None),
    )
    assert sorted((family.dim, family.others, list(family.groups)) for family in found) == [
        ("h", "batch 1, w 3, 1 thread", [1, 2]),
        ("h", "batch 1, w 4, 1 thread", [1, 2]),
        ("w", "batch 1, h 1, 1 thread", [3, 4]),
        ("w", "batch 1, h 2, 1 thread", [3, 4]),
    ]
    assert len({family.name for family in found}) == 4


def test_another_model_of_the_same_name_is_no_other_size() -> None:
    def of(task: str, digest: str, time: str) -> list[Record]:
        found = request(task, ort=0.5, openvino=None)
        return [
            dataclasses.replace(one, header=replace(one.header, family=digest, subject=(task, digest), time=time))
            for one in found
        ]

    old = [*of("m@s=16", "old", "2026-01-01"), *of("m@s=64", "old", "2026-01-01")]
    (family,) = families_of(old, of("m@s=128", "new", "2026-01-02"), of("m@s=256", "new", "2026-01-02"))
    assert list(family.groups) == [128, 256]


def test_one_size_is_no_family() -> None:
    assert families_of(request("albert@tokens=16", ort=0.5, openvino=0.4)) == []


def test_table_says_what_is_fastest_where() -> None:
    text = report.render(crossing(), format="md")
    assert "### albert by tokens (batch 1, 1 thread)" in text
    line, _ = [line for line in text.splitlines() if line.startswith("| torch/torch\\_onnx/raw/openvino")]
    times = [cell.strip() for cell in line.split("|")[2:5]]
    assert [time.endswith("\\*") for time in times] == [True, True, False]
    assert "openvino/cpu at tokens 16 and 64;" in text
    assert "onnxruntime/cpu at tokens 256 (at 256, torch/torch\\_onnx/raw/openvino/cpu takes " in text
    assert " of its time)." in text


def test_size_at_which_a_deployment_does_not_run() -> None:
    (family,) = families_of(
        request("albert@tokens=16", ort=0.8, openvino=0.4), request("albert@tokens=64", ort=0.5, openvino=None)
    )
    assert [stretch.deployment.split("/")[-2] for stretch in family.stretches] == ["openvino", "onnxruntime"]
    assert family.stretches[1].after is None
    assert "\N{EN DASH}" in report.render([family], format="table")


def test_size_at_which_nothing_runs() -> None:
    fails = [
        made.record(path.format(task="albert@tokens=64"), failure=Failure(stage="verify", reason="too long"))
        for path in (BASE, ORT)
    ]
    (family,) = families_of(request("albert@tokens=16", ort=0.5, openvino=None), fails)
    text = " ".join(report.words(family))
    assert "torch/torch_onnx/raw/onnxruntime/cpu is at tokens 16 the fastest" in text
    assert text.endswith("None was timed at tokens 64; the table of rows says why.")


def test_sizes_between_which_one_was_not_timed_are_listed() -> None:
    fails = [made.record(BASE.format(task="m@s=32"), failure=Failure(stage="verify", reason="no"))]
    timed = [request(f"m@s={size}", ort=0.5, openvino=None) for size in (8, 16, 64)]
    (family,) = families_of(*timed, fails)
    assert "onnxruntime/cpu is at s 8, 16 and 64 the fastest" in " ".join(report.words(family))


def test_narrow_terminal_breaks_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = families_of(*(request(f"m@s={2**power}", ort=0.5, openvino=0.4) for power in range(12)))
    text = report.render(found, format="table")
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("latency p50") == 3, "the sizes stand in three tables"
    assert "torch/torch_onnx/raw/" in text
    for size in range(12):
        assert f" {2**size}" in text


def test_figure_of_a_family(tmp_path: Path) -> None:
    paths = size_plots.draw(crossing(), tmp_path / "plots")
    assert [path.name for path in paths] == [
        "albert-by-tokens-batch1-threads1.png",
        "albert-by-tokens-batch1-threads1.svg",
    ]
    text = paths[1].read_text()
    for part in ("albert by tokens, batch 1, 1 thread", "torch/torch_onnx/raw/openvino/cpu", "latency p50"):
        assert part in text
