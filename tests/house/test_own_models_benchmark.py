"""`benchmarks/own_models.py`: what it reads of a run and a pick, what it follows, and what it counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
NONE = """none: 2 cells may be the fastest, and none is sure to be at most 5 % slower than the others:
    m/a
    m/b
  to take one that is at most 13 % slower than the fastest:
    bench pick m --tolerance 13%
  to decide:
    bench run m/a 'm/b c' --launches 10
"""


@pytest.fixture
def script(scripts: Any) -> ModuleType:
    loaded: ModuleType = scripts("own_models")
    return loaded


def test_the_outcome_of_a_run_and_of_a_pick_is_read(script: Any) -> None:
    notes = "bench: WARNING: m: the machine was busy\n"
    assert script.outcome_of(f"{notes}bench: winner: onnx/native, 1 ms; next: bench pick m\n") == "winner"
    assert script.outcome_of(f"keep: m/a\n  ship the model as it is: {NONE[:4]}\n") == "keep"
    assert script.outcome_of(NONE) == "none"
    assert script.outcome_of("bench: cannot use m.onnx: no input\n") == ""


def test_commands_that_measure_are_followed_first_and_only_below_a_none(script: Any) -> None:
    assert script.advised(NONE) == [
        ["bench", "run", "m/a", "m/b c", "--launches", "10"],
        ["bench", "pick", "m", "--tolerance", "13%"],
    ]
    assert script.advised(NONE.replace("none: ", "keep: ")) == []
    assert script.shortened("bench run m/a 'm/b c' --launches 10") == "bench run --launches 10"


def ended(script: Any, outcome: str, **fields: Any) -> Any:
    usual = {"name": "tiny", "run_said": outcome, "outcome": outcome, "followed": (), "decision": outcome, "cell": "c"}
    return script.Tried(**{**usual, "run_s": 30.0, "pick_s": 5.0, "error": 0.002, "fault": "", **fields})


def test_a_none_counts_as_an_outcome_where_what_it_names_leads_to_a_decision(script: Any) -> None:
    led = ended(script, "none", decision="winner", followed=("bench run m/a m/b --launches 10",))
    lost = ended(script, "none", decision="", cell="", error=None, fault="it names no command")
    broken = ended(script, "winner", fault="run.py: no module")
    found = [ended(script, "winner"), ended(script, "keep"), led, lost, broken]
    assert script.summary(found) == (
        "4 of 5 end in a decision: 2 winner, 1 keep, 1 none that leads to one; without a decision: 1 none; "
        "3 of 4 deployments run"
    )
    rows = script.table(found).splitlines()
    assert rows[4].endswith("| 30 | none | winner after `bench run --launches 10` | c | 0.2 % |")
    assert rows[5].endswith("| 30 | none | it names no command |  |  |")
    assert "| winner (run.py: no module) |" in rows[6]


def test_a_summary_without_undecided_models_says_so(script: Any) -> None:
    assert script.summary([ended(script, "keep")]) == (
        "1 of 1 end in a decision: 0 winner, 1 keep, 0 none that leads to one; without a decision: 0; "
        "1 of 1 deployments run"
    )


@pytest.mark.parametrize(("num_locked", "num_tries"), [(3, 4), (10_000, 60)])
def test_a_command_waits_for_another_bench_and_not_for_ever(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, num_locked: int, num_tries: int
) -> None:
    """It pauses for 10 s between tries, 600 s in all, by a clock that goes on only in the pauses."""
    pauses: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append)
    monkeypatch.setattr(script, "time", clock)
    tries: list[int] = []

    def once(shell: Any, command: list[str]) -> tuple[subprocess.CompletedProcess[str], float]:
        tries.append(1)
        is_locked = len(tries) <= num_locked
        return subprocess.CompletedProcess(command, int(is_locked), "", script.LOCKED if is_locked else ""), 2.0

    monkeypatch.setattr(script.Shell, "_once", once)
    done, taken_s = script.Shell(folder=tmp_path).type(["bench", "run"])
    assert (len(tries), pauses) == (num_tries, [10] * (num_tries - 1))
    assert (done.returncode, taken_s) == (int(num_locked >= num_tries), 2.0)


def test_every_model_says_what_it_is(script: Any) -> None:
    assert len(script.KINDS) == 20
    assert all(script.KINDS.values())


def test_the_outputs_of_a_deployment_are_held_beside_those_of_the_model(tmp_path: Path) -> None:
    program = "def predict(feeds):\n    return {'y': 2 * feeds['x'], 'classes': feeds['x'].argmax(1)}\n"
    (tmp_path / "run.py").write_text(program)
    ports = {"inputs": [{"name": "x"}], "outputs": [{"name": "y"}, {"name": "classes"}]}
    (tmp_path / "deployment.json").write_text(json.dumps(ports))
    x = np.array([[3.0, 4.0]], np.float32)
    np.savez(tmp_path / "feeds.npz", x)

    def said(*expected: np.ndarray) -> float:
        np.savez(tmp_path / "expected.npz", *expected)
        files = [tmp_path, tmp_path / "feeds.npz", tmp_path / "expected.npz"]
        command = [sys.executable, str(SCRIPTS / "peers" / "predicted.py"), *map(str, files)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert said(2 * x) == 0
    assert said(2.5 * x) == pytest.approx(0.2)
    assert said(2 * x, np.array([0])) == 1
    assert said(2 * x[0]) == float("inf")
