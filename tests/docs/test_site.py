"""The documentation site: every page is in its navigation, and its build refuses requests to other hosts."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
HOOKS = ROOT / "docs" / "site" / "hooks.py"


@pytest.fixture(scope="module")
def hooks() -> Any:
    """The hooks as MkDocs loads them: as a file, for `docs` is no package."""
    spec = importlib.util.spec_from_file_location("site_hooks", HOOKS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_navigation_has_every_page(hooks: Any) -> None:
    configured = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = configured.partition("\nnav:\n")[2].partition("\ntheme:\n")[0]
    named = re.findall(r"(\S+\.md)$", navigation, re.MULTILINE)
    pages = {path.relative_to(ROOT).as_posix() for pattern in hooks.PAGES for path in ROOT.glob(pattern)}
    pages = {page for page in pages if page.endswith(".md")}
    pages |= {f"{folder}/README.md" for folder in hooks.LISTED_FOLDERS}
    pages |= {path.relative_to(ROOT).with_suffix(".md").as_posix() for path in ROOT.glob(hooks.NOTEBOOKS)}
    pages |= {path.relative_to(HOOKS.parent).as_posix() for path in HOOKS.parent.rglob("*.md")}
    assert sorted(named) == sorted(pages)


@pytest.mark.parametrize(
    ("text", "is_page", "loaded"),
    [
        ('<script src="https://unpkg.com/x.js"></script>', True, ["https://unpkg.com/x.js"]),
        ('<link rel="stylesheet" href="//fonts.example/css">', True, ["//fonts.example/css"]),
        ("<style>@import 'https://a.example/b.css';</style>", True, ["https://a.example/b.css"]),
        ("@font-face { src: url(https://a.example/f.woff2) }", False, ["https://a.example/f.woff2"]),
        ('<a href="https://a.example">a link</a><link rel="canonical" href="https://a.example">', True, []),
        ('<script src="../assets/x.js"></script><img src="plot.png">', True, []),
        ("a { background: url(data:image/png;base64,AA) }", False, []),
    ],
)
def test_what_a_page_loads_from_elsewhere(text: str, is_page: bool, loaded: list[str], hooks: Any) -> None:
    assert hooks.loaded_from_elsewhere(text, is_page=is_page) == loaded


def test_links_to_folders_lead_to_their_pages(hooks: Any) -> None:
    class File:
        src_uri = "results/README.md"
        name = "README"

    class Page:
        file = File
        meta: dict[str, Any] = {}

    text = "[plots](reference/plots) [table](reference/table.md#x) [elsewhere](https://a.example/b) [run](../n.ipynb)"
    expected = text.replace("reference/plots", "reference/plots/README.md").replace(".ipynb", ".md")
    assert hooks.on_page_markdown(text, page=Page) == expected


def test_a_notebook_is_a_page_with_its_outputs(hooks: Any) -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["printed\n"]},
        {"output_type": "execute_result", "data": {"text/plain": ["a"], "text/html": ["<div>\n", "a</div>"]}},
        {"output_type": "display_data", "data": {"text/plain": ["<Figure>"], "image/png": "AAAA"}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "[link](x.md)"]},
        {"cell_type": "code", "source": ["x = 1\n", "x"], "outputs": outputs},
    ]
    assert hooks.notebook_page({"cells": cells}) == (
        "# Title\n[link](x.md)\n\n```python\nx = 1\nx\n```\n\n```text\nprinted\n```\n\n<div>\na</div>\n\n"
        "![figure](data:image/png;base64,AAAA)\n"
    )
