"""The page of published results is short, has every experiment, and its intervals stand on the pages it links to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "results"
PAGE = RESULTS / "README.md"
MOST_WORDS = 900
INTERVAL = re.compile(r"[\d.]+ \[[\d.]+, [\d.]+\]")
LINK = re.compile(r"\]\(([^)#]+\.md)[^)]*\)")


def rows() -> list[str]:
    """The rows of the table of experiments, without its head."""
    return [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][2:]


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text(encoding="utf-8").split()) <= MOST_WORDS


def test_every_folder_of_an_experiment_has_notes_that_the_page_links_to() -> None:
    linked = {name for row in rows() for name in LINK.findall(row) if name.endswith("/README.md")}
    published = {path.relative_to(RESULTS).as_posix() for path in RESULTS.glob("*/README.md")}
    assert len(published) >= 9
    assert linked == published


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split(" | ")[0].strip("| "))
def test_intervals_of_a_row_stand_on_a_page_that_it_links_to(row: str) -> None:
    pages = [(RESULTS / name).read_text(encoding="utf-8") for name in LINK.findall(row)]
    known = set(INTERVAL.findall(" ".join(" ".join(pages).split())))
    assert set(INTERVAL.findall(row)) <= known


def test_most_rows_have_an_interval() -> None:
    assert sum(bool(INTERVAL.search(row)) for row in rows()) >= len(rows()) - 2
