"""The pages of questions: each fits a screen, shows what its command prints now, and has a picture."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from support.commands import run_here

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "questions").glob("*.md"))
MOST_LINES = 60
IMAGE = re.compile(r"!\[[^\]]+\]\((?P<path>[^)#]+)\)|(?:src|srcset)=\"(?P<source>[^\"]+)\"")


@pytest.fixture(scope="module")
def outputs() -> Any:
    """The script that fills the pages, as a file, for `docs` is no package."""
    spec = importlib.util.spec_from_file_location("site_outputs", ROOT / "docs" / "site" / "outputs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_four_questions_and_the_readme_links_to_them() -> None:
    assert len(PAGES) == 4
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if f"](docs/questions/{page.name})" not in readme] == []


def test_they_come_first_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"docs/questions/(\S+\.md)$", navigation, re.MULTILINE)
    first = re.findall(r"(\S+)\.md$", navigation, re.MULTILINE)[: len(PAGES)]
    assert sorted(named) == [page.name for page in PAGES]
    assert all(path.startswith("docs/questions/") for path in first)


@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_output_is_what_the_command_prints(
    page: Path, outputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def printed(command: str) -> str:
        """What it prints in this process."""
        _, *arguments = shlex.split(command.replace("\\\n", " "))
        files = {name: tmp_path / name for name in ("stdout", "stderr")}
        variables = {"COLUMNS": str(outputs.WIDTH)}
        assert run_here(*arguments, folder=ROOT, environment=variables, **files) == 0
        return files["stdout"].read_text()

    if page != PAGES[0]:  # one in the process that the script starts
        monkeypatch.setattr(outputs, "printed", printed)
    text = page.read_text(encoding="utf-8")
    assert outputs.filled(text) == text, "make readme fills it"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_it_fits_a_screen_and_has_a_picture(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    images = [found["path"] or found["source"] for found in IMAGE.finditer(text)]
    assert len(text.splitlines()) <= MOST_LINES
    assert max(map(len, text.partition("```text\n")[2].partition("```")[0].splitlines())) <= 130
    assert images
    assert [image for image in images if not (page.parent / image).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_answer_in_words_has_figures_of_the_output_alone(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    answer = re.search(r"\*\*(.+?)\*\*", text, re.DOTALL)
    assert answer is not None
    figures = re.findall(r"\d+(?:\.\d+)*", answer[1])
    output = text.partition("```text\n")[2].partition("```")[0]
    assert figures
    assert [figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.]*\d)", output)] == []


def test_an_output_that_is_not_current_is_replaced_and_a_page_without_marks_is_refused(
    outputs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "printed", lambda command: f"of {command}\n")
    page = "# Q\n\n```\nbench show toy\n```\n\n{}{}{}\nMore.\n"
    old = page.format(outputs.BEGIN, "```text\nold\n```\n", outputs.END)
    assert outputs.filled(old) == page.format(outputs.BEGIN, "```text\nof bench show toy\n```\n", outputs.END)
    lines = old.replace("bench show toy", "bench show toy \\\n    --all")
    assert "\n```text\nof bench show toy \\\n    --all\n```\n" in outputs.filled(lines)
    for without in (old.replace(outputs.END, ""), old.replace("bench show", "ls")):
        with pytest.raises(ValueError, match="marks of its output"):
            outputs.filled(without)
