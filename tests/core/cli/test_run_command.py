"""`bench run` on a model of one's own: the cells that it measures by default."""

from __future__ import annotations

import re
import sys
import typing
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.cli import main, run, run_output
from bench.measure import machine
from bench.pipeline import selection, sweep, sweep_options, sweeps
from bench.tasks import adopt, names
from support import rows
from support.features import needs

ROOT = Path(__file__).parents[3]
PATH = "crnn/torch/torch_onnx/{}/onnxruntime/cpu/b1t1"


@pytest.fixture(autouse=True)
def model(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`model.onnx` in the working folder, on a machine with three cores."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), "model.onnx")
    monkeypatch.setattr(machine, "num_cores", lambda: 3)


def test_the_help_names_every_sweep() -> None:
    said = typing.get_type_hints(run.run, include_extras=True)["sweep"].__metadata__[0].help
    assert [name for name in sweeps.named() if name not in said] == []


def cells(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The cells that a run of the model would measure."""
    monkeypatch.setattr(sys, "argv", ["bench", "run", "--model", "model.onnx", "--dry-run", *arguments])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert not end.value.code
    return capsys.readouterr().out.split()


@pytest.mark.parametrize("flags", [[], ["--whole-split"]])
def test_whole_splits_are_verified_where_it_is_asked_for(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[sweep_options.Options] = []

    def measure(_: object, settings: sweep_options.Options, *__: object, **___: object) -> list[object]:
        seen.append(settings)
        return []

    monkeypatch.setattr("bench.cli.run._measure", measure)
    monkeypatch.setattr(sys, "argv", ["bench", "run", "toy/null/native/raw/null/cpu/b1t1", *flags])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert not end.value.code
    assert [settings.whole_split for settings in seen] == [bool(flags)]


def test_half_a_minute_answers_one_request(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = cells(monkeypatch, capsys)
    assert "model/onnx/native/raw/onnxruntime/cpu/b1t1" in found
    assert len({path.split("/")[3] for path in found}) > 5, "the variants are there"
    assert {path.rpartition("/")[2] for path in found} == {"b1t1"}
    batches = cells(monkeypatch, capsys, "--dim", "batch=1,4")
    assert {path.rpartition("/")[2] for path in batches} == {"b1t1", "b4t1"}


@pytest.fixture
def other_model() -> str:
    """`b/model.onnx`, where the results named `model` are of `model.onnx`."""
    before = adopt.adopt(Path("model.onnx"), results=Path("results"))
    assert before.chosen is not None
    names.keep(Path("results"), before.chosen)
    other = onnx.load("model.onnx")
    other.graph.node[0].op_type = "Neg"
    Path("b").mkdir()
    onnx.save(other, "b/model.onnx")
    return "b/model.onnx"


@pytest.mark.parametrize("pattern", ["model/*/b1t1", "b_model/*/b1t1", "*/b1t1"])
def test_a_pattern_with_the_name_of_the_file_selects_a_model_that_had_to_be_named_otherwise(
    pattern: str, other_model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bench", "run", "--model", other_model, "--dry-run", "--sweep", "full", pattern]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as end:
        main.main()
    assert not end.value.code
    found = capsys.readouterr().out.split()
    assert "b_model/onnx/native/raw/onnxruntime/cpu/b1t1" in found
    assert {path.partition("/")[0] for path in found} == {"b_model"}


@needs("load")
@pytest.mark.parametrize(
    "pattern",
    [
        "model/*/b1t1",
        pytest.param("b_model/*/b1t1", marks=pytest.mark.thorough),
        pytest.param("*/b1t1", marks=pytest.mark.thorough),
    ],
)
def test_load_takes_the_same_patterns(pattern: str, other_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []

    def select(globs: Sequence[str], *_: object, **__: object) -> list[Cell]:
        asked.append(globs)
        raise InputError("enough")

    monkeypatch.setattr(selection, "select", select)
    monkeypatch.setattr(sys, "argv", ["bench", "load", "--model", other_model, pattern])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code
    assert asked == [["b_model/*/b1t1"]]


def test_runtimes_at_all_cores_are_a_glob_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As docs/quickstart.md has it: the baseline and other runtimes, the file as it is."""
    (glob,) = re.findall(r"bench run --model model\.onnx '(\*/raw/.*?)'", (ROOT / "docs" / "quickstart.md").read_text())
    found = cells(monkeypatch, capsys, glob.replace("tN", "t3"))
    assert "model/onnx/native/raw/onnxruntime/cpu/b1t3" in found
    assert len(found) > 1
    assert {path.split("/")[3] for path in found} == {"raw"}


def test_a_cell_that_was_timed_and_has_ended_is_counted_once() -> None:
    """Of five cells, one was timed, one was timed before it was broken, and one was skipped."""
    shown = [
        rows.make(PATH.format("onnxsim"), num_launches=1),
        rows.make(PATH.format("dedup"), num_launches=1, fidelity="broken"),
        rows.make(PATH.format("fp16"), status="skipped"),
    ]
    (line,) = run_output.not_in_table(shown, 5)
    assert line == "of 5 cells, these are not in the table: 2 not timed yet, 1 failed, broken or skipped"
    assert run_output.not_in_table(shown[:2], 2) == []
    shown.append(rows.make(PATH.format("simplify"), untimed="software imitates the device"))
    (line,) = run_output.not_in_table(shown, 5)
    assert "1 not timed yet, 1 not timed, for their times say nothing, 1 failed" in line


def test_cells_for_which_there_was_no_time_are_counted_by_the_reason() -> None:
    """A cell that an earlier run timed is in the table."""
    spare, timed, compiling = (
        Cell.from_path(f"crnn/torch/{rest}/cpu/b1t1")
        for rest in ("torch_onnx/onnxsim/onnxruntime", "torch_onnx/ort-all/onnxruntime", "native/raw/torch_compile")
    )
    shown = [rows.make(timed.path, num_launches=1), rows.make(spare.path)]
    assert run_output.untimed([spare, timed, compiling], shown, 20) == [
        "1 of 20 cells are not in the table: no time was left, and by earlier or published results none of them is "
        "likely to be the fastest; a longer --total adds them",
        "1 of 20 cells are not in the table: each compiles for half a minute, and no time was left; a longer --total "
        "adds them",
    ]
    assert run_output.untimed([timed], shown, 20) == []


def test_the_last_line_says_how_the_run_ended_whatever_was_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_nothing(self: sweep.Sweep, cells: Sequence[Cell]) -> None:
        self.left_out += cells[-1:]

    monkeypatch.setattr(sweep.Sweep, "run", run_nothing)
    monkeypatch.setattr(sys, "argv", ["bench", "run", "--model", "model.onnx", "*/raw/onnxruntime*/cpu/b1t1"])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 1
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("bench: ")]
    assert said[-2].startswith("bench: 1 of 4 cells are not in the table: no time was left, and by earlier or ")
    assert said[-1].startswith("bench: no cell could be timed")
