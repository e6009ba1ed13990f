"""`bench export`: what it prints, the files that it writes, and the inputs that it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.cli import main
from support import page_records as made

LEFT_OUT = "bench: 1 cell is left out: 1 broken; `bench show` says why\n"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of the command."""
    monkeypatch.setattr(sys, "argv", ["bench", "export", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    return int(stopped.value.code or 0)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    made.store(tmp_path / "results")
    return tmp_path / "results"


@pytest.mark.parametrize("more", [(), ("--output", "-")], ids=["nothing named", "-"])
def test_the_standard_output_has_the_format_alone(
    more: tuple[str, ...], results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--format", "bmf", "--results", str(results), *more) == 0
    printed = capsys.readouterr()
    assert set(json.loads(printed.out)) == {made.BASELINE, made.HALVE, made.PRUNE}
    assert printed.err == LEFT_OUT


@pytest.mark.parametrize("format", ["bmf", "gha"])
def test_a_file_has_what_would_be_printed(
    format: str, results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = results / "out" / "figures.json"
    given = ("*/halve/*", "--format", format, "--results", str(results))
    assert run(monkeypatch, *given) == 0
    printed = capsys.readouterr()
    assert run(monkeypatch, *given, "--output", str(output)) == 0
    assert output.read_text(encoding="utf-8") == printed.out
    assert [path.name for path in output.parent.iterdir()] == ["figures.json"]
    assert made.HALVE in printed.out
    assert made.PRUNE not in printed.out
    assert printed.err == ""


def test_otava_has_a_folder(results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ((), ("--output", "-")):
        assert run(monkeypatch, "--format", "otava", "--results", str(results), *arguments) == 2
        printed = capsys.readouterr()
        assert "Otava reads a file for each cell, no text to print; name a folder with --output" in printed.err
        assert printed.out == ""

    output = results / "history"
    for _ in range(2):
        assert run(monkeypatch, "--format", "otava", "--results", str(results), "--output", str(output)) == 0
        printed = capsys.readouterr()
        assert (printed.out, printed.err) == (f"{output / 'otava.yaml'}\n", LEFT_OUT)
    files = {path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file()}
    assert files == {"otava.yaml", *(f"{cell}.csv" for cell in (made.BASELINE, made.HALVE, made.PRUNE))}
    assert len((output / f"{made.HALVE}.csv").read_text().splitlines()) == 2
    assert f'"{output}/{made.HALVE}.csv"' in (output / "otava.yaml").read_text()


def test_nothing_to_export_is_an_error(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "figures.json"
    given = ("*/broken/*", "--format", "gha", "--results", str(results), "--output", str(output))
    assert run(monkeypatch, *given) == 2
    assert "there is nothing to export: 1 cell is left out: 1 broken" in capsys.readouterr().err
    assert not output.exists()


def test_a_format_must_be_named(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--results", str(results)) == 2
    assert "--format" in capsys.readouterr().err
