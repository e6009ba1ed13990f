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
    pages = {path.relative_to(ROOT).as_posix() for path in hooks.pages()}
    folders = [*filter(Path.is_dir, hooks.linked_from(hooks.pages()))]
    pages |= {path.relative_to(ROOT).as_posix() for folder in folders for path in folder.rglob("*.md")}
    pages |= {f"{folder.relative_to(ROOT).as_posix()}/README.md" for folder in folders}
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


def test_what_pages_link_to_is_published(hooks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and folders within the repository; pages publish themselves, and a folder with a page is that page."""
    for name in ("model/LICENSE", "plots/a.png", "noted/README.md", "a-light.svg", "a-dark.svg", "unlinked.txt"):
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).touch()
    (tmp_path / "outside.txt").touch()
    page = tmp_path / "root" / "README.md"
    page.write_text(
        "[licence](model/LICENSE) [plots](plots) [notes](noted) [gone](gone.txt) [out](../outside.txt)\n"
        + picture("a-dark.svg", "a-light.svg"),
        encoding="utf-8",
    )
    monkeypatch.setattr(hooks, "ROOT", tmp_path / "root")

    found = [path.relative_to(tmp_path / "root").as_posix() for path in hooks.linked_from([page])]

    assert found == ["a-dark.svg", "a-light.svg", "model/LICENSE", "plots"]


def test_a_picture_for_light_and_dark_pages_becomes_two_of_the_theme(hooks: Any) -> None:
    assert hooks.in_markdown(picture("d.svg", "l.svg")) == "![bars](l.svg#only-light)\n![bars](d.svg#only-dark)\n"
    narrow = (
        '<picture>\n<source media="(max-width: 600px) and (prefers-color-scheme: dark)" srcset="n-d.svg">\n'
        '<source media="(max-width: 600px)" srcset="n-l.svg">\n'
    )
    assert hooks.in_markdown(picture("d.svg", "l.svg").replace("<picture>", narrow)) == (
        "![bars](l.svg#only-light)\n![bars](d.svg#only-dark)\n![bars](n-l.svg#only-light)\n![bars](n-d.svg#only-dark)\n"
    )
    assert "<picture>" not in hooks.in_markdown((ROOT / "README.md").read_text(encoding="utf-8"))


def test_what_a_block_of_code_shows_is_left_out_after_its_language(hooks: Any) -> None:
    class File:
        src_uri = "docs/guard.md"
        name = "guard"

    class Page:
        file = File
        meta: dict[str, Any] = {}

    text = "```yaml docs/examples/a.yml\na: 1\n```\n- one\n  ```text message\n  said\n  ```\n```\nbench run x\n```"
    assert hooks.on_page_markdown(text, page=Page) == (
        "```yaml\na: 1\n```\n- one\n  ```text\n  said\n  ```\n```\nbench run x\n```"
    )


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


def picture(dark: str, light: str) -> str:
    """A picture as code hosts show it in the reader's colours."""
    return (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="{dark}">\n'
        f'  <img src="{light}" alt="bars">\n</picture>\n'
    )
