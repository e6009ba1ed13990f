"""Parameters of rows: counted in the file or those of the source, and why a file has not as many as its source."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bench.records import assemble
from bench.records.lines import Failure
from bench.records.rows import Row
from bench.records.store import Record
from support.records import record, replaced_quality, with_artifact

NATIVE = "crnn/torch/native/raw/pytorch/cpu/b1t1"
SOURCE = 1_000_000


def source(num_params: int = SOURCE, path: str = NATIVE) -> Record:
    return with_artifact(replaced_quality(record(path), num_params=num_params), format="torch")


def made(path: str, *, stored: int | None = None, told: int | None = None, **facts: Any) -> Record:
    """A record whose file has `stored` parameters, or whose runtime tells `told`, by this version."""
    quality = {"num_params": told, "repeated": facts.pop("told_repeated", None)}
    return with_artifact(replaced_quality(record(path), **quality), num_params=stored, **facts)


def row_of(found: Record, *others: Record) -> Row:
    rows = assemble.rows({each.cell.path: each for each in (*others, found)})
    return next(row for row in rows if row.cell == found.cell.path)


def shown(row: Row) -> tuple[int | None, str | None, str | None]:
    return row.num_params, row.num_params_from, row.num_params_note


@pytest.mark.parametrize(
    "found",
    [
        made("crnn/torch/torch_mnn/raw/mnn/cpu/b1t1", format="mnn"),
        made("crnn/torch/torch_executorch/raw/executorch/cpu/b1t2", format="pte"),
        made("crnn@batch=4/torch/torch_iree/raw/iree/cpu/b1t1", format="vmfb"),
        made("crnn/torch/aot_inductor/raw/aot_inductor/cpu/b1t1", told=SOURCE, format="pt2"),
        made("crnn/torch/native/torch_int8_dynamic/pytorch/cpu/b1t1", told=SOURCE, format="torch"),
    ],
    ids=lambda found: str(found.cell.exporter),
)
def test_a_file_that_cannot_be_read_has_the_parameters_of_its_source_marked(found: Record) -> None:
    assert shown(row_of(found, source())) == (SOURCE, "source", None)


def test_the_source_is_that_of_the_cell_and_else_the_reference() -> None:
    path = "crnn/tf/tflite/raw/litert/cpu/b1t1"
    keras = source(990_000, "crnn/tf/native/raw/tensorflow/cpu/b1t1")
    assert shown(row_of(made(path, format="tflite"), source(), keras))[:2] == (990_000, "source")
    other = replaced_quality(made(path, format="tflite"), reference=NATIVE)
    assert shown(row_of(other, source()))[:2] == (SOURCE, "source")
    alone = replaced_quality(made(path, format="tflite"), reference_params=SOURCE)
    assert shown(row_of(alone))[:2] == (SOURCE, "source")
    assert shown(row_of(made(path, format="tflite"))) == (None, None, None)


@pytest.mark.parametrize("number", [SOURCE, 990_000, 1_010_000])
def test_what_folding_explains_has_no_note(number: int) -> None:
    found = made("crnn/torch/torch_onnx/raw/onnxruntime/cpu/b1t1", stored=number)
    assert shown(row_of(found, source())) == (number, "file", None)


TWICE = "500,000 are stored again: table as head"


@pytest.mark.parametrize(
    ("found", "note"),
    [
        (made("crnn/torch/tf2onnx/raw/onnxruntime/cpu/b1t1", stored=1_500_000, repeated=TWICE), TWICE),
        (made("crnn/torch/a/raw/openvino/cpu/b1t1", told=1_500_000, told_repeated=TWICE, format="openvino"), TWICE),
        (
            made("crnn/torch/a/raw/litert/cpu/b1t1", told=1_500_000, format="tflite"),
            "no array is stored twice as it is",
        ),
        (
            made(
                "crnn/torch/a/ort-all/onnxruntime/cpu/b1t1", stored=1_500_000, operators={"com.microsoft.nchwc.Conv": 1}
            ),
            "weights are filled up to whole blocks of channels",
        ),
        (
            replaced_quality(made("crnn/torch/a/raw/b/cpu/b1t1", stored=1_500_000), repeated=msgspec.UNSET),
            "an earlier version did not record why",
        ),
    ],
)
def test_a_file_with_more_than_its_source_says_why(found: Record, note: str) -> None:
    expected = f"500,000 parameters more than the source's 1,000,000: {note}"
    assert shown(row_of(found, source())) == (1_500_000, "file", expected)


def test_a_file_with_fewer_than_its_source_says_so() -> None:
    row = row_of(made("crnn/torch/torch_onnx/raw/onnxruntime/cpu/b1t1", stored=900_000), source())
    assert row.num_params_note == (
        "100,000 parameters fewer than the source's 1,000,000: an exporter leaves out what no output needs, and folds "
        "what it can"
    )


@pytest.mark.parametrize("operator", ["MatMulInteger", "com.microsoft.MatMulNBits", "DequantizeLinear"])
def test_quantized_files_have_the_parameters_that_were_counted_in_them(operator: str) -> None:
    found = made("crnn/torch/torch_onnx/int8/onnxruntime/cpu/b1t1", stored=SOURCE, operators={operator: 4})
    assert shown(row_of(found)) == (SOURCE, "file", None)


def test_counts_that_an_earlier_version_made_without_the_bodies_of_loops_give_way_to_the_source() -> None:
    path = "crnn/torch/torch_openvino/raw/openvino/cpu/b1t1"
    earlier = replaced_quality(made(path, told=437_729, format="openvino"), repeated=msgspec.UNSET)
    assert shown(row_of(earlier, source())) == (SOURCE, "source", None)
    assert shown(row_of(made(path, told=998_000, format="openvino"), source())) == (998_000, "file", None)


def test_a_model_without_weights_has_none_and_trees_have_no_number() -> None:
    path = "crnn/torch/torch_onnx/raw/onnxruntime/cpu/b1t1"
    assert shown(row_of(made(path, stored=0, operators={"Add": 1}))) == (0, "file", None)
    trees = made(path, stored=0, operators={"ai.onnx.ml.TreeEnsembleClassifier": 1})
    assert shown(row_of(trees, source())) == (None, None, None)


@pytest.mark.parametrize("stage", ["skip", "prepare", "measure"])
def test_a_row_that_is_not_ok_borrows_no_parameters(stage: str) -> None:
    found = record("crnn/torch/a/raw/b/cpu/b1t1", quality=None, failure=Failure(stage=stage, reason="no"))
    assert shown(row_of(found, source())) == (None, None, None)
