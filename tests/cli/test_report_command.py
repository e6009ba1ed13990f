"""`bench report` and `bench show --format parquet`: the files that they write, and the inputs that they refuse."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from bench.cli import main
from support import page_records as made


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of the command."""
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    return int(stopped.value.code or 0)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    made.store(tmp_path / "results")
    return tmp_path / "results"


def cells(page: Path) -> set[str]:
    data = page.read_text(encoding="utf-8").partition('id="data">')[2].partition("</script>")[0]
    return {found["cell"] for found in json.loads(data)}


def test_the_page_stands_beside_the_results(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "report", "--results", str(results)) == 0

    assert capsys.readouterr().out == f"{results / 'report.html'}\n"
    assert cells(results / "report.html") == {path for path in made.records() if path.startswith("toy")}


def test_globs_choose_what_is_on_it(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "some" / "page.html"

    assert run(monkeypatch, "report", "*/halve/*", "--results", str(results), "--output", str(output)) == 0

    assert cells(output) == {made.HALVE}


def test_a_glob_that_matches_nothing_is_said(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "report", "*/double/*", "--results", str(results)) == 2

    assert "no result matches '*/double/*'" in capsys.readouterr().err
    assert not (results / "report.html").exists()


def test_parquet_needs_a_file(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "show", "--results", str(results), "--format", "parquet") == 2
    assert "name a file with --output" in capsys.readouterr().err

    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    output = tmp_path / "rows.parquet"
    columns = ("--columns", "cell,ratio", "--sort", "-ratio")
    assert (
        run(monkeypatch, "show", "--results", str(results), "--format", "parquet", "--output", str(output), *columns)
        == 0
    )
    found = pd.read_parquet(output)
    assert list(found.columns) == ["cell", "ratio"]
    assert found.cell[0] == made.PRUNE


def test_a_public_page_names_no_place_and_no_person(
    results: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOGNAME", "zoe77")
    (path,) = (results / "machine").glob("broken.jsonl")
    said = "/home/zoe77/m.py and /usr/lib/secret/x.so"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1] |= {"reason": f"broken: {said}", "warning": said}
    lines[0]["artifact"]["info"] = {"log": said}
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    pages = {}
    for name, options in (("private", []), ("public", ["--public"])):
        output = tmp_path / f"{name}.html"
        assert run(monkeypatch, "report", "--results", str(results), "--output", str(output), *options) == 0
        pages[name] = output.read_text(encoding="utf-8")

    assert pages["private"].count("/home/zoe77/m.py") >= 3
    assert [secret for secret in ("zoe77", "/home", "/usr/lib") if secret in pages["public"]] == []
    assert "broken: .../m.py and .../x.so" in pages["public"]
    assert cells(tmp_path / "public.html") == cells(tmp_path / "private.html")


@pytest.fixture
def several(results: Path) -> Path:
    """Results of two machines, of which one has no `prune`; and a folder whose records cannot be read."""
    other = shutil.copytree(results / "machine", results / "zoes-laptop")
    next(other.glob("prune.jsonl")).unlink()
    for path in other.glob("*.jsonl"):
        path.write_text(path.read_text().replace("/here/", "/there/"))
    (results / "empty").mkdir()
    (results / "empty" / "a.jsonl").write_text("no JSON\n")
    return results


def test_a_page_of_several_machines(
    several: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "report", "--results", str(several)) == 0

    page = (several / "report.html").read_text(encoding="utf-8")
    switch = page.partition('<nav class="machines')[2].partition("</nav>")[0]
    assert re.findall(r'<a href="#[^"]+">([^<]+)</a>', switch) == ["machine", "zoes-laptop"]
    assert f"no results in {several / 'empty'}" in capsys.readouterr().err


def test_a_glob_may_match_on_some_machines_alone(
    several: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "report", "*/prune/*", "--results", str(several)) == 0

    assert "left out, for no cell matches there: zoes-laptop" in capsys.readouterr().err
    assert cells(several / "report.html") == {made.PRUNE}
    assert run(monkeypatch, "report", "*/nowhere/*", "--results", str(several)) == 2
    assert "no result matches '*/nowhere/*'" in capsys.readouterr().err


def test_a_public_page_of_several_machines_names_none_of_their_folders(
    several: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(monkeypatch, "report", "--results", str(several), "--public") == 0

    page = (several / "report.html").read_text(encoding="utf-8")
    assert "zoe" not in page
    assert "machine-1" in page
    assert "machine-2" in page
