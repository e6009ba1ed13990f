"""`bench report` and `bench show --format parquet`: the files that they write, and the inputs that they refuse."""

from __future__ import annotations

import html
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from bench.cli import main
from bench.features.page import document as page_module
from bench.records import assemble
from bench.report import excerpt
from support import page_records as made
from support.features import needs


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


def commands(page: Path) -> list[str]:
    """What the cards copy."""
    codes = re.findall(r"<code>(.*?)</code>", page.read_text(encoding="utf-8"))
    return [html.unescape(re.sub(r"<[^>]+>", "", code)) for code in codes]


def test_a_card_copies_the_command_that_picks_from_the_same_results(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, "report", "--results", str(results))
    assert commands(results / "report.html") == [f"bench pick toy --results {results}"]
    run(monkeypatch, "report", "toy/*", "--results", str(results))
    assert commands(results / "report.html") == [f"bench pick 'toy/*' --results {results}"]
    run(monkeypatch, "report", "--results", str(results), "--public")
    assert commands(results / "report.html") == ["bench pick toy"], "the folder is a place"


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
    assert commands(several / "report.html") == [
        f"bench pick toy --results {several / name}" for name in ("machine", "zoes-laptop")
    ]
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


def test_a_pick_that_is_only_said_saves_nothing(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "pick", "toy", "--tolerance", "90%", "--dry-run", "--results", str(results)) == 0

    said = capsys.readouterr().out
    assert f"winner: {made.HALVE}" in said
    assert "saved in" not in said
    assert not (results / "picks").exists()


def test_plots_compare_with_the_cell_that_is_named(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HALVE takes half of the baseline's latency, so that of the baseline is twice its own."""
    for name, options in (("own", ()), ("other", ("--baseline", made.HALVE))):
        assert run(monkeypatch, "plot", "--results", str(results), "--output", str(tmp_path / name), *options) == 0

    own, other = ((tmp_path / name / "toy-latency.svg").read_text(encoding="utf-8") for name in ("own", "other"))
    assert re.search(r"\b2\.0+x as fast", own)
    assert "0.50x as fast, slower" in other


COMMANDS = {
    "show": (),
    "best": (),
    "plot": (),
    "report": (),
    "pick": ("toy",),
    "explain": ("toy",),
    "show --sweep": ("--sweep", "generation"),
    "export": ("--format", "bmf"),
    "pick --everywhere": ("toy", "--everywhere"),
}
OF_FEATURES = {"explain": "explain", "show --sweep": "generation"}
"""Commands that need the folder of a feature."""


def proposals(folder: Path) -> None:
    """Let every record be that of a search's proposal."""
    for path in folder.glob("*.jsonl"):
        path.write_text(path.read_text().replace('"cell":"toy/', '"cell":"toy~tuning/'))


def without(folder: Path, *kinds: str) -> None:
    """Remove the lines of some kinds."""
    for path in folder.glob("*.jsonl"):
        lines = [line for line in path.read_text().splitlines() if json.loads(line)["kind"] not in kinds]
        path.write_text("".join(f"{line}\n" for line in lines))


def empty(folder: Path) -> None:
    for path in folder.glob("*.jsonl"):
        path.unlink()


def failures(folder: Path) -> None:
    """Let every record be that of a failure."""
    without(folder, "launch", "quality")
    for path in folder.glob("*.jsonl"):
        with path.open("a") as file:
            file.write('{"kind":"failure","stage":"prepare","reason":"it cannot"}\n')


def peaks(folder: Path) -> None:
    empty(folder)
    (folder / "peaks.json").write_text("{}")


STATES = {
    "proposals": proposals,
    "headers": lambda folder: without(folder, "launch", "quality"),
    "verified": lambda folder: without(folder, "launch"),
    "launches": lambda folder: without(folder, "quality"),
    "failures": failures,
    "empty": empty,
    "peaks": peaks,
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "command",
    [pytest.param(name, marks=needs(OF_FEATURES[name]) if name in OF_FEATURES else ()) for name in COMMANDS],
)
def test_a_folder_that_holds_little_is_shown_or_refused(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: str, command: str
) -> None:
    STATES[state](results / "machine")
    name, *_ = command.split()

    code = run(monkeypatch, name, *COMMANDS[command], "--results", str(results))

    said = capsys.readouterr()
    assert code in (0, 1, 2)
    assert code == 0 or said.err.startswith("bench: ") or name == "pick"
    if code == 2:
        assert said.err.count("\n") == 1


def test_a_folder_of_proposals_alone_is_no_page(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proposals(results / "machine")

    assert run(monkeypatch, "report", "--results", str(results)) == 2

    assert "only proposals of searches are stored there, which globs can name: machine" in capsys.readouterr().err
    assert not (results / "report.html").exists()
    assert run(monkeypatch, "report", "toy~tuning", "--results", str(results)) == 0
    assert len(cells(results / "report.html")) == 4


def test_a_machine_of_proposals_alone_is_left_out(
    several: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proposals(several / "zoes-laptop")

    assert run(monkeypatch, "report", "--results", str(several)) == 0

    assert "left out: only proposals of searches are stored there" in capsys.readouterr().err
    assert '<nav class="machines' not in (several / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [(), ("--public",)])
def test_a_page_of_very_many_cells_shows_a_part_and_says_so(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(excerpt, "MOST", 2)

    assert run(monkeypatch, "report", "--results", str(results), *options) == 0

    sentence = "2 of 4 cells are shown: those to ship, the baselines"
    assert sentence in capsys.readouterr().err
    assert sentence in (results / "report.html").read_text(encoding="utf-8")
    assert cells(results / "report.html") == {made.HALVE, made.BASELINE}


def test_a_part_among_several_machines(several: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excerpt, "MOST", 4)

    assert run(monkeypatch, "report", "--results", str(several)) == 0

    page = (several / "report.html").read_text(encoding="utf-8")
    assert "2 of 4 cells are shown" in page
    assert "2 of 3 cells are shown" in page
    assert len(cells(several / "report.html")) == 2  # of both machines


def test_a_page_that_shows_all_says_nothing_of_a_part(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "report", "--results", str(results)) == 0

    assert capsys.readouterr().err == ""
    assert "cells are shown" not in (results / "report.html").read_text(encoding="utf-8")


def test_the_work_for_a_page_does_not_grow_with_the_cells_that_it_leaves_out(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 900 cells in 300 requests, it looks through all records once, and at details of those that it shows."""
    text = next((results / "machine").glob("halve.jsonl")).read_text().splitlines()
    for number in range(900):
        cell = made.HALVE.replace("halve", f"v{number}").replace("b2t1", f"b{number % 300 + 3}t1")
        header = json.loads(text[0]) | {"cell": cell, "key": f"k{number}"}
        (results / "machine" / f"k{number}.jsonl").write_text(f"{json.dumps(header)}\n{text[1]}\n")
    counted = dict.fromkeys(("details", "higher_is_better"), 0)

    def count(module: object, name: str) -> None:
        function = getattr(module, name)

        def counting(*arguments: object) -> object:
            counted[name] += 1
            return function(*arguments)

        monkeypatch.setattr(module, name, counting)

    monkeypatch.setattr(excerpt, "MOST", 150)
    count(page_module, "details")
    count(assemble, "higher_is_better")

    assert run(monkeypatch, "report", "--results", str(results)) == 0

    assert counted == {"details": 150, "higher_is_better": 1}
    assert len(cells(results / "report.html")) == 150
    assert {made.HALVE, made.BASELINE} <= cells(results / "report.html")


def test_figures_of_very_many_cells_show_a_part_and_say_so(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(excerpt, "MOST_DRAWN", 2)

    assert run(monkeypatch, "plot", "--results", str(results)) == 0

    assert "2 of 4 cells are shown: the baselines, and of each request the first" in capsys.readouterr().err
    drawn = (results / "machine" / "plots" / "toy-latency.svg").read_text(encoding="utf-8")
    assert "halve" in drawn
    assert "prune" not in drawn
