"""Options of no command, and the words of the progress."""

from __future__ import annotations

import io
import sys
from importlib.metadata import version

import pytest
from rich.console import Console

from bench.api.cell import Cell
from bench.cli import main, progress
from bench.measure.rounds import Progress
from support import records as made


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--version"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert not ended.value.code
    assert capsys.readouterr().out == f"bench {version('inferometer')}\n"


@pytest.mark.parametrize(
    ("number", "stage", "stored", "new"),
    [
        (1, "preparing 1 cell", "1 launch stored", "1 of 1 cell not launched yet, 1 question open"),
        (2, "preparing 2 cells", "2 launches stored", "2 of 2 cells not launched yet, 2 questions open"),
    ],
)
def test_one_is_not_many(number: int, stage: str, stored: str, new: str) -> None:
    file = io.StringIO()
    now = Progress(num_round=1, num_new=number, num_open=number, num_beyond=0, num_cells=number, seconds_left=0.0)
    with progress.observer(Console(file=file), every_s=0) as watch:
        watch.stage("prepare", number)
        watch.stage("measure", number)
        watch.progress(now)
        watch.measured([Cell.from_path(made.BASELINE)] * number)
    lines = file.getvalue().splitlines()
    assert lines[0].endswith(f"; {stage}")
    assert lines[2].endswith(new)
    assert lines[3].endswith(f"; {stored}")
