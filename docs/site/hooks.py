"""Hooks of MkDocs: put the repository's pages on the site, draw diagrams offline, and refuse requests to elsewhere.

Source: https://www.mkdocs.org/user-guide/configuration/#hooks
"""

from __future__ import annotations

import html.parser
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "*.md",
    "docs/*.md",
    "docs/questions/*.md",
    "models/*/README.md",
    "datasets/*/README.md",
    "results/README.md",
)
"""Pages of the site, besides those of published experiments; they keep their paths in the repository."""
NOTEBOOKS = "docs/notebooks/*.ipynb"
"""Notebooks, of which a page each is made."""
MERMAID = ROOT / "build" / "mermaid" / "package" / "dist" / "mermaid.min.js"
"""What `make docs` takes from the npm registry: the theme would load it from a CDN."""
MERMAID_URI = "assets/javascripts/mermaid.min.js"
LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s#:]+)(?=[)#])")
FENCE = re.compile(r"^( *```\w+) .+$", re.MULTILINE)
"""The beginning of a block of code whose language is followed by what it shows.

The site's Markdown takes no such line for a beginning, and so the end of the block for one, and headings for code.
"""
PICTURE = re.compile(
    r'<picture>\s*(?:<source media="\(max-width: \d+px\) and \(prefers-color-scheme: dark\)" '
    r'srcset="(?P<narrow_dark>[^"]+)">\s*<source media="\(max-width: \d+px\)" srcset="(?P<narrow_light>[^"]+)">\s*)?'
    r'<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">\s*'
    r'<img src="(?P<light>[^"]+)" (?:width="\d+" )?alt="(?P<alt>[^"]*)">\s*</picture>'
)
"""A picture for light and for dark pages, as code hosts show it, perhaps with others for narrow pages before it."""
LOADED_BY = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}
"""The attribute by which an element makes the browser load a file."""
STYLE_LOAD = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)")


def on_files(files: Any, config: Any) -> Any:
    """Add the repository's pages, the published results and Mermaid to the files of `docs/site`."""
    from mkdocs.structure.files import File

    shown = pages()
    linked = linked_from(shown)
    listed = {folder: sorted(filter(Path.is_file, folder.rglob("*"))) for folder in linked if folder.is_dir()}
    for path in sorted({*shown, *filter(Path.is_file, linked), *itertools.chain.from_iterable(listed.values())}):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    for folder, paths in listed.items():
        name = folder.relative_to(ROOT).as_posix()
        files.append(File.generated(config, f"{name}/README.md", content=listing(folder, paths)))
    for path in sorted(ROOT.glob(NOTEBOOKS)):
        page = path.relative_to(ROOT).with_suffix(".md").as_posix()
        files.append(File.generated(config, page, content=notebook_page(json.loads(path.read_text(encoding="utf-8")))))
    if MERMAID.is_file():
        files.append(File.generated(config, MERMAID_URI, abs_src_path=str(MERMAID)))
    return files


def pages() -> list[Path]:
    """The repository's pages on the site: `PAGES`, and those of every published experiment, whose folder has notes.

    Other folders of `results/` are of the machine on which the site is built.
    """
    patterns = (*PAGES, *(f"results/{notes.parent.name}/*.md" for notes in ROOT.glob("results/*/README.md")))
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern)})


def linked_from(shown: Iterable[Path]) -> list[Path]:
    """What pages link to or show that is no page itself: files, and folders without a page of their own.

    For a folder a page is made, with its pictures and links to its other files.
    """
    found = set()
    for page in shown:
        text = in_markdown(page.read_text(encoding="utf-8"))
        found |= {(page.parent / link["target"]).resolve() for link in LINK.finditer(text)}
    own = (path for path in found if path.is_relative_to(ROOT))
    return sorted(path for path in own if (path.is_file() and path.suffix != ".md") or is_listed(path))


def is_listed(path: Path) -> bool:
    """Whether a path is that of a folder without a page of its own."""
    return path.is_dir() and not (path / "README.md").is_file()


def in_markdown(text: str) -> str:
    """A text whose pictures for light and dark pages are two in Markdown, of which the theme shows the one that fits.

    Of those for narrow pages, which have `-narrow-` in their names, `extra.css` shows the ones that fit. Unlike the
    element they follow the reader's choice of colours, and their paths are checked and moved with the page.
    """

    def both(found: re.Match[str]) -> str:
        kinds = [kind for kind in ("light", "dark", "narrow_light", "narrow_dark") if found[kind]]
        return "\n".join(f"![{found['alt']}]({found[kind]}#only-{kind.removeprefix('narrow_')})" for kind in kinds)

    return PICTURE.sub(both, text)


def listing(folder: Path, paths: list[Path]) -> str:
    """A page in Markdown with the pictures among some files of a folder, and links to the others."""
    lines = [f"# {folder.name[:1].upper()}{folder.name[1:]}", ""]
    for path in paths:
        name = path.relative_to(folder).as_posix()
        lines += (
            [f"## {path.stem}", "", f"![{path.stem}]({name})", ""] if path.suffix == ".png" else [f"- [{name}]({name})"]
        )
    return "\n".join(lines) + "\n"


def notebook_page(notebook: dict[str, Any]) -> str:
    """A page in Markdown of a notebook: its prose, its code and the outputs that are kept in it."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text")})
            if "image/png" in data:
                parts.append(f"![figure](data:image/png;base64,{data['image/png']})")
            elif "text/html" in data:
                parts.append("".join(data["text/html"]))
            else:
                parts.append(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to folders and notebooks lead to their pages, and pictures follow the colours of the page.

    A site serves no listing of a folder: only the pages that `on_files` makes. Tables of results have the room of the
    table of contents.
    """
    is_table = page.file.src_uri.startswith("results/") and page.file.name != "README"
    if is_table or is_question(page):
        page.meta["hide"] = ["toc"]
    here = (ROOT / page.file.src_uri).parent

    def to_page(link: re.Match[str]) -> str:
        is_folder = (here / link["target"]).is_dir()
        target = re.sub(r"\.ipynb$", ".md", link["target"])
        return f"{target.rstrip('/')}/README.md" if is_folder else target

    return LINK.sub(to_page, FENCE.sub(r"\1", in_markdown(markdown)))


def is_question(page: Any) -> bool:
    """Whether a page answers a question on one screen."""
    return page.file.src_uri.startswith("docs/questions/")


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Mark the pages that fit a screen, for the style sheet."""
    return f'<div class="question">{html}</div>' if is_question(page) else html


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Load Mermaid on pages with a diagram: 3.5 MB that other pages do without.

    Raises:
        PluginError: there is a diagram, but `make docs` has not taken Mermaid from its registry.
    """
    if 'class="mermaid"' not in output:
        return output
    if not MERMAID.is_file():
        from mkdocs.exceptions import PluginError

        raise PluginError(f"{page.file.src_uri} has a diagram, and {MERMAID} is not there; `make docs` puts it there")
    source = os.path.relpath(MERMAID_URI, Path(page.file.dest_uri).parent)
    return output.replace("</head>", f'<script src="{source}"></script></head>', 1)


def on_post_build(config: Any) -> None:
    """Refuse a site that would load a script, style, font or picture from elsewhere.

    Raises:
        PluginError: a page or a style sheet does; the message names the addresses.
    """
    from mkdocs.exceptions import PluginError

    site = Path(config.site_dir)
    found = [
        f"{path.relative_to(site)} loads {address}"
        for path in sorted((*site.rglob("*.html"), *site.rglob("*.css")))
        for address in loaded_from_elsewhere(path.read_text(encoding="utf-8"), is_page=path.suffix == ".html")
    ]
    if found:
        raise PluginError("the site must work without a network: " + "; ".join(found))


def loaded_from_elsewhere(text: str, *, is_page: bool) -> list[str]:
    """Addresses at another host that a page or a style sheet makes the browser load; a mere link loads nothing."""
    return [*(_Loads.of(text) if is_page else ()), *STYLE_LOAD.findall(text)]


class _Loads(html.parser.HTMLParser):
    """Collects what elements such as `<script src>` load from another host."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    @classmethod
    def of(cls, text: str) -> Iterator[str]:
        parser = cls()
        parser.feed(text)
        yield from parser.addresses

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        address = values.get(LOADED_BY.get(tag, ""))
        is_only_named = tag == "link" and values.get("rel") in ("canonical", "next", "prev")
        if address and re.match(r"(https?:)?//", address) and not is_only_named:
            self.addresses.append(address)
