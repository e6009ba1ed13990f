"""The action where it measures: its steps as GitHub runs them, with a command `bench` that answers at once."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.decisions.check import Outcome
from bench.measure.stats import Estimate
from bench.report.check import as_json
from support import records as made
from support.github import Ran, run_action

ROOT = Path(__file__).parents[2]
BENCH = """#!{python}
import json, os, sys
from pathlib import Path
with Path({calls!r}).open("a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
said = json.loads(Path({answers!r}).read_text())[sys.argv[-1]]
sys.stderr.write(said["stderr"])
sys.stdout.write(said["stdout"])
sys.exit(said["code"])
"""


def answer(
    verdict: str = "fine", *, ratio: tuple[float, float, float] = (1.0, 0.99, 1.01), fault: str | None = None
) -> dict[str, Any]:
    """What `bench check --format json` does for a pair with an outcome."""
    judged = made.quality(fidelity="exact" if fault is None else "broken", reason=fault)
    outcome = Outcome(
        verdict=verdict,
        ratio=Estimate(value=ratio[0], low=ratio[1], high=ratio[2]),
        control=None,
        num_launches=3,
        new_ns=(1,),
        quality=judged,
        max_metric_loss=0.01,
        fault=fault,
    )
    told = as_json(outcome, "new/onnx/native/raw/onnxruntime/cpu/b1t1")
    return {"code": 0 if outcome.passed else 1, "stdout": told, "stderr": ""}


FINE = answer()
UNDECIDED = answer("undecided", ratio=(1.01, 0.2, math.inf))
SLOWER = answer("regression", ratio=(1.0834, 1.061, 1.12))
WRONG = answer("regression", fault="output y has shape (1, 3)")
REFUSED = {"code": 2, "stdout": "", "stderr": "bench: reading\nbench: new.onnx is no model\n"}
CRASHED = {"code": 1, "stdout": "", "stderr": "Traceback\nKeyError: 'x'\n"}


class Action:
    """Runs the action's steps on pairs with given answers.

    Attributes:
        workspace: the working folder.
    """

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.answers = folder / "answers.json"
        self.called = folder / "calls"
        self.bench = folder / "bench"
        self.bench.write_text(
            BENCH.format(python=sys.executable, calls=str(self.called), answers=str(self.answers)), encoding="utf-8"
        )
        self.bench.chmod(0o755)

    def run(self, answers: dict[str, dict[str, Any]], **inputs: str) -> Ran:
        self.answers.write_text(json.dumps(answers), encoding="utf-8")
        return run_action(ROOT, {"bench": str(self.bench), **inputs}, workspace=self.workspace, environment={})

    def calls(self) -> list[list[str]]:
        """The arguments of each call of `bench`."""
        return [json.loads(line) for line in self.called.read_text().splitlines()]


@pytest.fixture
def action(tmp_path: Path) -> Action:
    return Action(tmp_path)


@pytest.mark.parametrize(
    ("said", "outcome", "code", "row"),
    [
        (FINE, "fine", 0, "| `new.onnx` | 1.000 [0.990, 1.010] | fine | `exact` |"),
        (UNDECIDED, "undecided", 0, "| `new.onnx` | 1.010 [0.200, \N{EN DASH}] | undecided | `exact` |"),
        (SLOWER, "regression", 1, "| `new.onnx` | 1.083 [1.061, 1.120] | regression | `exact` |"),
        (WRONG, "wrong", 1, "| `new.onnx` | 1.000 [0.990, 1.010] | wrong | `broken (output y has shape (1, 3))` |"),
        (REFUSED, "error", 1, "| `new.onnx` | \N{EN DASH} | error | `new.onnx is no model` |"),
        (CRASHED, "error", 1, "| `new.onnx` | \N{EN DASH} | error | `KeyError: 'x'` |"),
    ],
    ids=["fine", "undecided", "slower", "wrong", "refused", "crashed"],
)
def test_one_model(said: dict[str, Any], outcome: str, code: int, row: str, action: Action) -> None:
    ran = action.run({"new.onnx": said}, pinned="old.onnx", new="new.onnx")
    assert ran.code == code, ran.log
    folder = Path(ran.outputs["report"])
    assert ran.outputs == {"outcome": outcome, "report": str(folder)}
    assert ran.summary == (folder / "report.md").read_text(encoding="utf-8")
    lines = ran.summary.splitlines()
    assert lines[0] == f"1 model beside the pinned: 1 {outcome}"
    assert lines[2:5] == [
        "| model | latency, times the pinned one's | outcome | outputs |",
        "| :-- | --: | :-- | :-- |",
        row,
    ]
    kept = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    (check,) = kept["checks"]
    assert (kept["version"], kept["outcome"], check["outcome"]) == (1, outcome, outcome)
    assert (check["pinned"], check["new"]) == ("old.onnx", "new.onnx")
    assert said["stderr"] in ran.log


def test_each_model_is_checked_and_the_worst_decides(action: Action) -> None:
    answers = {"c/new a.onnx": FINE, "c/-b.onnx": SLOWER, "c/d.onnx": UNDECIDED}
    ran = action.run(
        answers,
        pinned="old a.onnx\n\n  old b.onnx\nold d.onnx\n",
        new="\n".join(answers),
        options="--tolerance 5% --dataset 'my samples.npz'",
    )
    assert (ran.code, ran.outputs["outcome"]) == (1, "regression")
    assert ran.summary.startswith("3 models beside the pinned: 1 regression, 1 undecided, 1 fine\n")
    before = ["check", "--tolerance", "5%", "--dataset", "my samples.npz", "--format", "json", "--"]
    assert action.calls() == [
        [*before, "old a.onnx", "c/new a.onnx"],
        [*before, "old b.onnx", "c/-b.onnx"],
        [*before, "old d.onnx", "c/d.onnx"],
    ]


def test_a_saved_pick_is_made_anew(action: Action) -> None:
    ran = action.run({"picks/crnn": FINE}, pinned="picks/crnn")
    assert ran.code == 0, ran.log
    assert action.calls() == [["check", "--format", "json", "--", "picks/crnn"]]
    assert "| `picks/crnn` |" in ran.summary


@pytest.mark.parametrize(
    ("pinned", "new", "said"),
    [
        ("a\nb", "c", "`new` names 1 artifacts and `pinned` 2"),
        (" \n", "c", "`pinned` names 0 artifacts"),
        ("a\n" * 101, "", "`pinned` names 101 artifacts; 1 to 100 are allowed"),
    ],
)
def test_inputs_that_are_no_pairs_are_refused(pinned: str, new: str, said: str, action: Action) -> None:
    ran = action.run({}, pinned=pinned, new=new)
    assert (ran.code, ran.outputs) == (1, {"outcome": "", "report": ""})
    assert said in ran.log
    assert "Traceback" not in ran.log
    assert not action.called.exists()


@pytest.mark.parametrize("hostile", ["$(touch ran)", "`touch ran`", '"; touch ran; "', "'; touch ran; '", "a.onnx -v"])
def test_no_input_is_code_of_the_shell(hostile: str, action: Action) -> None:
    ran = action.run({hostile: FINE}, pinned=hostile, new=hostile)
    assert ran.code == 0, ran.log
    assert action.calls() == [["check", "--format", "json", "--", hostile, hostile]]
    assert list(action.workspace.iterdir()) == []


def test_without_a_command_the_version_of_the_action_is_installed(action: Action, tmp_path: Path) -> None:
    """A stand-in for python3 makes the environment and notes what pip is asked for; other scripts run as they do."""
    commands = tmp_path / "bin"
    commands.mkdir()
    python = commands / "python3"
    python.write_text(
        "#!/bin/sh\n"
        f'if [ "$2" != venv ]; then exec {sys.executable} "$@"; fi\n'
        f'mkdir -p "$3/bin"; cp {action.bench} "$3/bin/bench"\n'
        f'printf \'#!/bin/sh\\necho "$@" > {tmp_path}/pip\\n\' > "$3/bin/python"; chmod +x "$3/bin/python"\n'
    )
    python.chmod(0o755)
    action.answers.write_text(json.dumps({"new.onnx": FINE}))
    path = {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    inputs = {"pinned": "old.onnx", "new": "new.onnx"}
    ran = run_action(ROOT, inputs, workspace=action.workspace, environment=path)
    assert (ran.code, ran.outputs["outcome"]) == (0, "fine"), ran.log
    assert (tmp_path / "pip").read_text() == f"-m pip install --quiet {ROOT}\n"
    assert len(action.calls()) == 1
