"""`benchmarks/blamed.py`: its runs, which of them it makes, and what it counts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SHARE = {"value": 0.95, "low": 0.9, "high": 1.02}


@pytest.fixture
def script(scripts: Any) -> ModuleType:
    loaded: ModuleType = scripts("blamed")
    return loaded


def answer(kind: str, *, first: str = "node", share: float = 0.95, low: float = 2.0, taken_s: float = 60) -> Any:
    """What a run said in which `node` was planted."""
    line = {"share": {**SHARE, "value": share}}
    culprits = [] if kind == "equal" else [{"nodes": [[first], []], "line": line}]
    said: dict[str, Any] = {"culprits": culprits}
    if kind == "error":
        said = {"drifted": {"core": [1, 2], "part": [1, 2]}, "name": f"{first} (Conv)", "nodes": [[first], []]}
    planted = None if kind == "equal" else "node"
    return {"answer": said, "shown": [3.0, low, 4.0], "taken_s": taken_s, "kind": kind, "planted": planted}


def run(script: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """The runs that it makes."""
    made: list[str] = []

    def outcome(case: Any, place: Path, budget: str) -> Any:
        made.append(case.name)
        return answer(case.kind)

    monkeypatch.setattr(script, "outcome", outcome)
    monkeypatch.setattr(sys, "argv", ["blamed.py", *arguments])
    script.main()
    return made


def test_there_are_thirty_slowdowns_ten_errors_and_forty_equal_pairs(script: ModuleType) -> None:
    cases = list(script.cases())

    assert len({case.name for case in cases}) == 80
    kinds = [case.kind for case in cases]
    assert sum(kind in script.SLOWDOWNS for kind in kinds) == 30
    assert (sum(kind in script.ERRORS for kind in kinds), kinds.count("equal")) == (10, 40)


def test_runs_that_the_folder_has_are_not_made_again(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "over").mkdir()
    (tmp_path / "over" / "crnn-kernel0.json").write_text(json.dumps(answer("kernel", taken_s=42)))

    made = run(script, monkeypatch, str(tmp_path), "--only", "crnn-*")

    assert made == ["crnn-unfuse0", "crnn-transpose0", "crnn-error0", *(f"crnn-equal{at}" for at in range(4))]
    text = capsys.readouterr().out
    assert "right node first in 3 of 3 slowdowns and 1 of 1 errors" in text
    assert "something blamed in 0 of 4 runs against itself" in text
    (line,) = [line for line in text.splitlines() if line.startswith("crnn-kernel0")]
    assert "95 [90, 102] %" in line
    assert "3.00 [2.00, 4.00]" in line
    assert line.endswith("42 s")


def test_a_report_makes_no_run(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(script, monkeypatch, str(tmp_path), "--report") == []
    assert "80 runs are still to be made" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answers", "passes"),
    [
        ([answer("kernel")], True),
        ([answer("kernel", first="other")] * 2, True),
        ([answer("kernel", first="other")] * 3, False),
        ([answer("kernel", share=0.7)] * 4, True),
        ([answer("kernel", share=0.7)] * 5, False),
        ([answer("kernel", low=0.9)] * 5, False),
        ([answer("error", first="other")], False),
        ([answer("equal")] * 40, True),
        ([{**answer("equal"), "failure": "it crashes"}] * 3, False),
        ([answer("kernel", taken_s=301)], False),
    ],
)
def test_it_fails_where_too_much_went_wrong(script: ModuleType, answers: list[Any], passes: bool) -> None:
    named = {f"run{at}": each for at, each in enumerate(answers)}
    if passes:
        script.report(named)
        return
    with pytest.raises(SystemExit) as exit_:
        script.report(named)
    assert exit_.value.code == 1
