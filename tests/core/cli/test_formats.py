"""Formats that an option cannot have are refused before anything is read or written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.cli import main


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def test_best_puts_no_json_into_a_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("<!-- bench best: begin -->\n<!-- bench best: end -->\n")
    said = refused(monkeypatch, capsys, "best", "--format", "json", "--into", str(readme))
    assert "--into takes the table alone" in said
    assert readme.read_text() == "<!-- bench best: begin -->\n<!-- bench best: end -->\n"


def test_a_pick_for_all_machines_has_no_tolerance(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "leave out --tolerance" in refused(monkeypatch, capsys, "pick", "toy", "--everywhere", "--tolerance", "5%")


def test_a_pick_for_all_machines_has_no_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--everywhere prints a table alone" in refused(
        monkeypatch, capsys, "pick", "toy", "--everywhere", "--format", "json"
    )
