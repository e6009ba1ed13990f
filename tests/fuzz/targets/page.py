"""The page of damaged results: no script, no element and no attribute comes from what is stored."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import random
import re
from collections import Counter

from bench.api.errors import BenchError
from bench.api.loss_units import AllowedLoss
from bench.decisions.answer import answers
from bench.decisions.best import best_of
from bench.decisions.constraints import Constraints
from bench.features.page import document as pages
from bench.records import folder
from fuzz import folders, mutations, workplace
from fuzz.watch import PAGE, BrokenRule, check_printed

INSTRUMENTED = ("bench.features.page", "bench.report.columns", "bench.records")
LINKS = ("src", "href", "action", "formaction", "data", "srcdoc", "style")
TO_TEXT = bytes.maketrans(b"<>&'", b"____")
"""What a stored text would need to become more than a text."""
seeds, smaller = folders.seeds, mutations.smaller_lines


def changed(content: bytes, chance: random.Random, most_bytes: int) -> bytes:
    """A text is put in the place of a stored text, or anything is changed."""
    if chance.random() < 0.4:
        return mutations.of_lines(content, chance, most_bytes)
    texts = [*re.finditer(rb'(?<=:")[^"]+(?=")', content)]
    for found in sorted(chance.sample(texts, min(3, len(texts))), key=lambda found: -found.start()):
        hostile = mutations.json_text(chance.choice(mutations.TEXTS))
        content = content[: found.start()] + hostile + content[found.end() :]
    return content if len(content) <= most_bytes else b""


def check(content: bytes) -> None:
    elements = _elements(_page(content))
    try:
        plain = _elements(_page(content.translate(TO_TEXT)))
    except BenchError:
        return
    if elements != plain:
        raise BrokenRule(PAGE, f"a stored text is more than a text: {[*(elements - plain), *(plain - elements)][:3]}")


def _page(content: bytes) -> str:
    with workplace.folder() as path, workplace.compiled_once():
        (path / "machine").mkdir()
        folders.write(content, path / "machine")
        stored = folder.read(path)
        answered = answers(stored.measurements, stored.rows, Constraints(max_metric_loss=AllowedLoss()))
        shown = pages.Shown(
            records=stored.records,
            rows=stored.rows,
            best=best_of(stored.measurements, answered),
            lacking=[one for one in answered if one.choice.leading is None],
            peaks=stored.peaks,
        )
        return pages.page([shown], margin=stored.margin)


def _elements(source: str) -> Counter[tuple[str, ...]]:
    """How often each kind of element with its kinds of attributes is in a page, after all of them were looked at."""
    check_printed(source)
    reader = _Reader(source)
    if [tag for tag, *_ in reader.elements if tag == "script"] != ["script"] * 2:
        raise BrokenRule(PAGE, "there are other scripts than the page's own two")
    digest = base64.b64encode(hashlib.sha256(reader.scripts[1].encode()).digest()).decode()
    if f"script-src 'sha256-{digest}'" not in source:
        raise BrokenRule(PAGE, "the script is not the one that the page allows")
    return Counter(reader.elements)


class _Reader(html.parser.HTMLParser):
    """The elements of a page, and the texts of its scripts."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, ...]] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, *sorted(name for name, _ in attrs)))
        self._in_script = tag == "script"
        for name, value in attrs:
            if name.startswith("on"):
                raise BrokenRule(PAGE, f"<{tag} {name}={value!r}>")
            if name in LINKS and re.search(r"(?i)javascript:|https?:|//|url\(|expression", value or ""):
                raise BrokenRule(PAGE, f"<{tag} {name}={value!r}>")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts.append(data)
