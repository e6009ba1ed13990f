"""Cells: from a path to a cell and back, paths that are not cells, and globs."""

from __future__ import annotations

import dataclasses

import pytest

from bench.api.cell import Cell, matches, matching
from bench.api.errors import InputError
from bench.api.names import PluginName, ProviderName, Role, TaskName

PATH = "crnn/tf/tf2onnx/onnxoptimizer+onnxsim/onnxruntime/cpu-bf16/b4t2"
CELL = Cell(
    task=TaskName("crnn"),
    source="tf",
    exporter=PluginName("tf2onnx"),
    chain=(PluginName("onnxoptimizer"), PluginName("onnxsim")),
    runtime=PluginName("onnxruntime"),
    provider=ProviderName("cpu-bf16"),
    batch=4,
    threads=2,
)


@pytest.mark.parametrize("path", [PATH, "toy/null/native/raw/null/cpu/b1t1", "a_1/b.c/d-e/f+g+h/i/j+k+l/b10t128"])
def test_path_there_and_back(path: str) -> None:
    assert Cell.from_path(path).path == path
    assert Cell.from_path(Cell.from_path(path).path) == Cell.from_path(path)


def test_parts_of_a_path() -> None:
    assert Cell.from_path(PATH) == CELL
    assert str(CELL) == PATH
    assert CELL.variant == "onnxoptimizer+onnxsim"
    assert CELL.artifact_path == "crnn/tf/tf2onnx/onnxoptimizer+onnxsim"
    assert CELL.group == ("crnn", 4, 2)
    assert Cell.from_path("toy/null/native/raw/null/cpu/b1t1").chain == ()
    assert Cell.from_path("toy/null/native/raw/null/cpu/b1t1").variant == "raw"


def test_every_part_that_a_path_may_have() -> None:
    path = "lm~generate@new=1,prompt=9/torch/torch_onnx@2.9/dedup+mixed-2f1d@1.0/onnxruntime@1.22.0/cpu+no_arena/b1t2"
    cell = Cell.from_path(path)
    assert cell == Cell(
        task=TaskName("lm", Role.GENERATION, (("new", 1), ("prompt", 9))),
        source="torch",
        exporter=PluginName("torch_onnx", "2.9"),
        chain=(PluginName("dedup"), PluginName("mixed", "1.0", "2f1d")),
        runtime=PluginName("onnxruntime", "1.22.0"),
        provider=ProviderName("cpu", ("no_arena",)),
        batch=1,
        threads=2,
    )
    assert cell.path == path


def test_coordinates_there_and_back() -> None:
    assert CELL.coordinates == {
        "task": "crnn",
        "source": "tf",
        "exporter": "tf2onnx",
        "variant": "onnxoptimizer+onnxsim",
        "runtime": "onnxruntime",
        "provider": "cpu-bf16",
        "batch": 4,
        "threads": 2,
    }
    assert Cell.from_coordinates(CELL.coordinates) == CELL


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("", "a cell reads"),
        ("toy/null/native/raw/null/cpu", "a cell reads"),
        ("toy/null/native/raw/null/cpu/b1t1/more", "a cell reads"),
        ("extra/toy/null/native/raw/null/cpu/b1t1", "a cell reads"),
        ("toy/null/native/raw/null/cpu/b0t1", "a cell reads"),
        ("toy/null/native/raw/null/cpu/b1t01", "a cell reads"),
        ("toy/null/native/raw/null/cpu/b1t1\n", "a cell reads"),
        ("toy/null/native/raw/null/cpu/1x1", "a cell reads"),
        ("toy//native/raw/null/cpu/b1t1", "'' is not a name"),
        ("toy/null/native/a++b/null/cpu/b1t1", r"'a\+\+b' is not a name"),
        ("toy/null/native/+a/null/cpu/b1t1", r"'\+a' is not a name"),
        ("toy/null/native/ra w/null/cpu/b1t1", "'ra w' is not a name"),
        ("../null/native/raw/null/cpu/b1t1", "'..' is not a name"),
        ("toy/null/native/-x/null/cpu/b1t1", "'-x' is not a name"),
        ("toy/null/native/raw/null@/cpu/b1t1", "'null@' is not a name"),
        ("toy/null/native/raw/null@1@2/cpu/b1t1", "'null@1@2' is not a name"),
        ("toy/null/native@-1/raw/null/cpu/b1t1", "'native@-1' is not a name"),
        ("lm~tuning~generate/null/native/raw/null/cpu/b1t1", "'lm~tuning' is not a name"),
        ("toy/null/native/raw/null/cpu+/b1t1", r"'cpu\+' is not a name"),
    ],
)
def test_not_a_cell(path: str, named: str) -> None:
    with pytest.raises(InputError, match=named) as raised:
        Cell.from_path(path)
    assert repr(path) in str(raised.value)


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        (PATH, True),
        ("crnn", True),
        ("crnn/", True),
        ("crnn/tf", True),
        ("crnn/*", True),
        ("*", True),
        ("*/b4t2", True),
        ("*onnxruntime*", True),
        ("crnn/t?/tf2onnx/*", True),
        ("crnn/[st]f/*", True),
        ("crn", False),
        ("rnn", False),
        ("CRNN/*", False),
        ("crnn/t", False),
        ("*/b4t", False),
        ("tf", False),
    ],
)
def test_glob(glob: str, expected: bool) -> None:
    assert matches(CELL, [glob]) is expected


def test_any_glob_will_do_and_none_matches_nothing() -> None:
    assert matches(CELL, ["toy", "crnn"])
    assert not matches(CELL, [])


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("onnxruntime/*", ["crnn", "toy"]),
        ("onnxruntime", ["crnn", "toy"]),
        ("b4t2", ["crnn", "toy"]),
        ("crnn/onnxruntime/*", ["crnn"]),
        ("tf/tf2onnx/*", ["crnn", "toy"]),
        ("c*/onnxruntime/*/b4t2", ["crnn"]),
        ("runtime/*", []),
        ("4t2", []),
        ("crnn/runtime/*", []),
    ],
)
def test_glob_that_matches_no_whole_path_matches_its_end(glob: str, expected: list[str]) -> None:
    cells = [CELL, dataclasses.replace(CELL, task=TaskName("toy"))]
    assert [cell.task.model for cell in matching(cells, glob)] == expected


def test_glob_that_matches_a_whole_path_matches_no_end() -> None:
    """A task may have the name of a runtime: a glob that named it alone still does."""
    namesake = dataclasses.replace(CELL, task=TaskName("onnxruntime"))
    assert matching([CELL, namesake], "onnxruntime/*") == [namesake]
    assert matching([CELL, namesake], "onnxruntime") == [namesake]


def test_cells_are_in_the_order_of_their_parts_and_numbers() -> None:
    ends = ("dedup/null/cpu/b1t1", "dedup+onnxsim/null/cpu/b1t1", "raw/null/cpu/b2t1", "raw/null/cpu/b10t1")
    paths = [f"toy/null/native/{end}" for end in ends]
    assert [cell.path for cell in sorted(map(Cell.from_path, reversed(paths)))] == paths
    assert max(map(Cell.from_path, paths)).path == paths[-1]


def test_cells_are_hashable() -> None:
    assert CELL.path  # what is kept with a cell is no part of it
    assert len({CELL, Cell.from_path(PATH), Cell.from_coordinates(CELL.coordinates)}) == 1
