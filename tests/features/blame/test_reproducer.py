"""The folder of a reproducer: its script runs from there alone, and its texts hold no markup of names."""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bench.api.arrays import save_arrays
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.features.blame import publishing, reproducer, reproducer_script
from bench.features.blame.parts import Cut
from bench.features.blame.reproducer import Finding
from bench.features.blame.sides import Pair, Side
from bench.measure.stats import Estimate

CELL = Cell.from_path("crnn/torch/torch_onnx/raw/onnxruntime/cpu/b1t1")
HOSTILE = "y'\"\n]import os#{0}"
FINDING = Finding(
    title="Add_1 (Add) <b>|: 3.00 times as long",
    ratio=Estimate(value=3.0, low=2.9, high=3.1),
    num_nodes=(1, 25),
    operators=({"Add": 1}, {"Add": 25}),
)


def side(path: Path) -> Side:
    return Side(name="A <i>", cell=CELL, artifact=Artifact(path=path, format="onnx", sha256="0", size_bytes=1))


def cut(tmp_path: Path, name: str, num_adds: int) -> Cut:
    """A sum of an input with itself, over and over."""
    names = ["x", *(f"t{at}" for at in range(num_adds - 1)), HOSTILE]
    nodes = [helper.make_node("Add", [names[at], "x"], [names[at + 1]]) for at in range(num_adds)]
    values = [helper.make_tensor_value_info(each, TensorProto.FLOAT, [300_000]) for each in ("x", HOSTILE)]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    model = tmp_path / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    save_arrays(tmp_path / f"{name}.npz", {"x": np.ones(300_000, np.float32)})
    spec = {"name": HOSTILE, "dtype": "float32", "shape": [300_000]}
    return Cut(model=model, feeds=tmp_path / f"{name}.npz", outputs=(spec,))


def test_its_script_shows_the_difference_from_its_folder_alone(tmp_path: Path) -> None:
    cuts = cut(tmp_path, "a", 1), cut(tmp_path, "b", 25)
    pair = Pair(before=side(cuts[0].model), after=side(cuts[1].model), samples=CELL)
    reproducer.write(tmp_path / "made", pair, cuts, FINDING)
    shutil.move(tmp_path / "made", tmp_path / "elsewhere")
    for each in cuts:
        each.model.unlink()

    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BENCH"))}
    command = [sys.executable, str(tmp_path / "elsewhere" / "reproduce.py")]
    done = subprocess.run(command, cwd="/", env=environment, text=True, capture_output=True, timeout=120)

    assert done.returncode == 0, done.stderr
    shown = re.fullmatch(
        r"B over A: (\S+) \[(\S+), (\S+)\]; largest error (\S+) of the largest magnitude\n", done.stdout
    )
    assert shown is not None, done.stdout
    ratio, low, high, error = map(float, shown.groups())
    assert 1 < low < ratio < high  # 25 sums take longer than one
    assert error == pytest.approx(12)  # 26 instead of 2


def test_one_file_serves_both_sides_where_they_run_the_same(tmp_path: Path) -> None:
    one = cut(tmp_path, "a", 1)
    pair = Pair(before=side(one.model), after=side(one.model), samples=CELL)

    folder = reproducer.write(tmp_path / "made", pair, (one, one), FINDING)

    names = {"part.onnx", "inputs.npz", "run_a.py", "run_b.py", "reproduce.py", "environment.json", "issue.md"}
    assert {path.name for path in folder.iterdir()} == names


def test_texts_escape_names_and_say_how_to_run(tmp_path: Path) -> None:
    pair = Pair(before=side(tmp_path), after=side(tmp_path), samples=CELL)

    text = reproducer.issue(pair, FINDING)

    assert "<b>" not in text
    assert "<i>" not in text
    assert "3.000 [2.900, 3.100] times as long" in text
    assert "25 nodes, more than the 20" in text
    assert re.search(r"pip install onnxruntime==\S+ numpy\npython reproduce\.py", text)


def test_a_folder_with_other_files_is_not_touched(tmp_path: Path) -> None:
    one = cut(tmp_path, "a", 1)
    pair = Pair(before=side(one.model), after=side(one.model), samples=CELL)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")

    with pytest.raises(InputError, match="has other files"):
        reproducer.write(tmp_path / "full", pair, (one, one), FINDING)

    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]


def test_nothing_of_an_earlier_reproducer_stays_behind(tmp_path: Path) -> None:
    """It may have the weights that a later one with `--public` is to keep out of the folder."""
    one, other = cut(tmp_path, "a", 1), cut(tmp_path, "b", 2)
    pair = Pair(before=side(one.model), after=side(other.model), samples=CELL)
    folder = reproducer.write(tmp_path / "made", pair, (one, other), FINDING)
    (folder / "part_0_1_a.onnx.data").write_bytes(b"weights")
    (folder / "notes.txt").write_text("mine")

    reproducer.write(tmp_path / "made", pair, (one, one), FINDING)

    names = {"part.onnx", "inputs.npz", "run_a.py", "run_b.py", "reproduce.py", "environment.json", "issue.md"}
    assert {path.name for path in folder.iterdir()} == {*names, "notes.txt"}


def test_a_folder_has_all_of_its_files_or_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = cut(tmp_path, "a", 1)
    pair = Pair(before=side(one.model), after=side(one.model), samples=CELL)

    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(reproducer, "issue", full)
        with pytest.raises(OSError, match="No space left"):
            reproducer.write(tmp_path / "made", pair, (one, one), FINDING)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "a.onnx"]
    (tmp_path / ".made.part").mkdir()  # of a process that was killed
    (tmp_path / ".made.part" / "part.onnx").touch()
    folder = reproducer.write(tmp_path / "made", pair, (one, one), FINDING)
    assert (folder / "issue.md").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "a.onnx", "made"]


def test_texts_name_files_without_their_folders_and_the_interpreter_of_each_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old.onnx").touch()
    sides = [dataclasses.replace(side(tmp_path), name=str(tmp_path / "old.onnx")) for _ in "ab"]
    versions = iter([{"python": "3.10.4", "onnxruntime": "1.27.0"}, {"python": "3.12.1", "onnxruntime": "1.27.0"}] * 9)
    monkeypatch.setattr(reproducer.provenance, "versions_run", lambda _: next(versions))
    monkeypatch.setattr(reproducer.environments, "is_elsewhere", lambda *_: True)

    text = reproducer.issue(Pair(before=sides[0], after=sides[1], samples=CELL), FINDING)

    assert "A: old.onnx; 1 node" in text
    assert str(tmp_path) not in text
    assert "python3.10 -m venv a && a/bin/pip install onnxruntime==1.27.0 numpy\n" in text
    assert "python3.12 -m venv b && b/bin/pip install onnxruntime==1.27.0 numpy\n" in text


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ([1.0, 4.0], [1.0, 4.4], 0.1),
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([1.0, 2.0], [1.0, np.nan], np.inf),
        ([0.0, 0.0], [0.0, 1e-3], np.inf),
        ([np.inf, 2.0], [np.inf, 2.0], 0.0),
        ([1.0, 2.0], [1.0], np.inf),
        (["a"], ["a"], 0.0),
        (["a"], ["b"], np.inf),
    ],
)
def test_its_script_finds_errors_that_have_no_size(
    before: list[object], after: list[object], error: float, tmp_path: Path
) -> None:
    script: dict[str, object] = {}
    exec(reproducer_script.comparing().replace("\nmain()\n", "\n").replace("Path(__file__)", "Path()"), script)
    for name, values in (("a", before), ("b", after)):
        np.savez(tmp_path / f"{name}.npz", np.ones(2), np.array(values))

    assert script["largest_error"]({side: tmp_path / f"{side}.npz" for side in "ab"}) == pytest.approx(error)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("public", "stays"),
    [((1.2, 1.1, 1.3), True), ((1.2, 0.9, 1.5), False), ((1.05, 1.04, 1.06), False), ((0.8, 0.7, 0.9), False)],
)
def test_an_effect_of_random_numbers_is_clear_and_at_least_half(
    public: tuple[float, float, float], stays: bool
) -> None:
    own = Estimate(value=1.3, low=1.2, high=1.4)

    assert publishing.stays(own, Estimate(value=public[0], low=public[1], high=public[2])) == stays


@pytest.mark.parametrize(
    ("title", "name"),
    [("Resize_12 (Resize)", "Resize_12-Resize"), ("../../etc", "etc"), ("...", "part"), ("/", "part")],
)
def test_names_of_folders_are_plain(title: str, name: str) -> None:
    assert reproducer.folder_name(title) == name


FAKE = """
import sys
import numpy as np

np.savez(sys.argv[1], np.ones(3))
for _ in sys.stdin:
    with open(__file__ + ".log", "a") as log:
        log.write("{letter}")
    print("a line of the runtime")
    print("{samples}", flush=True)
"""


def test_its_script_takes_turns_and_compares_medians(tmp_path: Path) -> None:
    (tmp_path / "reproduce.py").write_text(reproducer_script.comparing())
    for letter, samples in (("a", [100, 90, 5000]), ("b", [300, 7000, 10])):
        (tmp_path / f"run_{letter}.py").write_text(FAKE.format(letter=letter, samples=samples))

    command = [sys.executable, str(tmp_path / "reproduce.py")]
    done = subprocess.run(command, text=True, capture_output=True, timeout=60)

    assert done.stdout == "B over A: 3.000 [3.000, 3.000]; largest error 0 of the largest magnitude\n", done.stderr
    bursts = [(tmp_path / f"run_{letter}.py.log").read_text() for letter in "ab"]
    assert bursts == ["a" * 8 * 26, "b" * 8 * 26]  # one of each process warms up


def test_its_script_says_that_a_side_failed(tmp_path: Path) -> None:
    (tmp_path / "reproduce.py").write_text(reproducer_script.comparing())
    (tmp_path / "run_a.py").write_text(FAKE.format(letter="a", samples=[1]))
    (tmp_path / "run_b.py").write_text("raise SystemExit('no such file')")

    command = [sys.executable, str(tmp_path / "reproduce.py")]
    done = subprocess.run(command, text=True, capture_output=True, timeout=60)

    assert done.returncode == 1
    assert "a side failed" in done.stderr
    assert "no such file" in done.stderr
    assert "B over A" not in done.stdout
