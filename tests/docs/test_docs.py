"""The pages are true: shown files equal the files, commands parse, links and paths exist, and the examples work."""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from bench import api
from bench.api import loading
from bench.api.cell import Cell
from bench.cli import main
from bench.measure.limits import Limits
from bench.pipeline import prepare, verify
from bench.plugins import catalog
from bench.records.rows import COLUMNS
from bench.tasks import adopt
from support.commands import run_here

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
QUESTIONS = sorted((ROOT / "docs" / "questions").glob("*.md"))
GUIDES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), *QUESTIONS)
READMES = (ROOT.glob(f"{folder}/**/README.md") for folder in ("changelog.d", "datasets", "models", "results"))
PAGES = (*GUIDES, ROOT / "CHANGELOG.md", *sorted(itertools.chain.from_iterable(READMES)))
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BENCH = re.compile(r"(\w+=\S* )*(\S*/)?bench( |$)")
MESSAGES = "text message"
"""What is said after the fence of a block that quotes the program, a message a line."""
GAP = "..."
"""Stands in a quoted message for what differs each time."""
REQUEST = "octagon/numpy/{}/cpu/b1t1"


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block: what is said after its fence, and its text."""

    info: str
    text: str


@functools.cache
def split(path: Path) -> tuple[str, tuple[Block, ...]]:
    """A page's prose, and its fenced blocks."""
    prose: list[str] = []
    blocks: list[Block] = []
    opened: list[str] | None = None
    info = indent = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("```"):
            if opened is None:
                opened, info, indent = [], line.strip(" `"), line[: line.index("`")]
            else:
                blocks.append(Block(info, "\n".join(opened) + "\n"))
                opened = None
        elif opened is not None:
            opened.append(line.removeprefix(indent))
        else:
            prose.append(line)
    assert opened is None, f"{path}: a block has no end"
    return "\n".join(prose), tuple(blocks)


def spans(text: str) -> list[str]:
    """What stands in code spans, each on one line."""
    return [" ".join(code.split()) for _, code in SPAN.findall(text)]


def said_to_a_shell(page: Path) -> list[str]:
    """Lines of blocks without a language, each with those that go on from it, and code spans."""
    prose, blocks = split(page)
    return [
        line for block in blocks if not block.info for line in block.text.replace("\\\n", " ").splitlines()
    ] + spans(prose)


def written_commands() -> list[Any]:
    """The arguments of every `bench` in a page."""
    found = {(page, text) for page in PAGES for text in said_to_a_shell(page) if BENCH.match(text)}
    cases = {}
    for page, text in sorted(found):
        words = list(itertools.dropwhile(lambda word: "=" in word, shlex.split(text, comments=True)))
        cases.setdefault(tuple(words[1:]), page.name)
    return [pytest.param(words, id=f"{page}: {shlex.join(words)}") for words, page in cases.items()]


def parse(words: tuple[str, ...]) -> None:
    """Parse a command line and run nothing; a command may also be just named."""
    found: Any = typer.main.get_command(main.app)
    while words and hasattr(found, "commands"):
        assert words[0] in found.commands, f"no command {words[0]!r}"
        found, words = found.commands[words[0]], words[1:]
    if words:
        found.make_context("bench", list(words))


def test_every_page_leads_to_the_glossary_which_stays_short() -> None:
    glossary = ROOT / "docs" / "glossary.md"
    pages = {page for page in GUIDES if page.name != "CONTRIBUTING.md"} - {glossary}
    without = [page.name for page in pages if "glossary.md" not in page.read_text(encoding="utf-8")]
    assert not without
    rows = [line for line in glossary.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    terms = [line.split("|")[1].strip() for line in rows if not line.startswith(("| term", "| ---"))]
    assert len(terms) == len(set(terms)) <= 40


@pytest.mark.parametrize("words", written_commands())
def test_command_line_parses(words: tuple[str, ...]) -> None:
    parse(words)


@pytest.mark.parametrize("wrong", ["show --colums cell", "nothing", "graph nothing x.onnx", "run --launches many"])
def test_command_line_that_is_wrong_does_not(wrong: str) -> None:
    assert len(written_commands()) > 40
    with pytest.raises(Exception, match=r"(?i)no such option|no command|valid integer"):
        parse(tuple(wrong.split()))


def test_the_page_of_commands_lists_every_command() -> None:
    commands: Any = typer.main.get_command(main.app)
    (listed,) = [block.text for block in split(ROOT / "docs" / "commands.md")[1] if "bench list" in block.text]
    assert {line.split()[1] for line in listed.splitlines()} == set(commands.commands)


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    words = [text.split() for page in PAGES for text in said_to_a_shell(page)]
    named = {target for line in words if line[:1] == ["make"] for target in itertools.takewhile(str.islower, line[1:])}
    assert {"bench", "test"} <= named <= targets


def shown_files() -> list[tuple[str, str]]:
    """Path and text of every block that shows a file."""
    blocks = [block for page in GUIDES for block in split(page)[1]]
    return [(block.info.split()[1], block.text) for block in blocks if "docs/examples/" in block.info]


@pytest.mark.parametrize(("path", "text"), [pytest.param(*shown, id=shown[0]) for shown in shown_files()])
def test_shown_file_is_the_file(path: str, text: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == text


def test_every_example_is_shown() -> None:
    files = [path for path in EXAMPLES.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sorted(str(path.relative_to(ROOT)) for path in files) == sorted(path for path, _ in shown_files())


def anchors(path: Path) -> set[str]:
    """What may follow a `#` in a link to a page: its headings, as they are turned into names."""
    headings = re.findall(r"^#+ (.+)$", split(path)[0], re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        yield from ((page, target) for target in LINK.findall(split(page)[0]) if "://" not in target)


@pytest.mark.parametrize(("page", "target"), list(links()), ids=lambda value: str(value).removeprefix(f"{ROOT}/"))
def test_link_leads_somewhere(page: Path, target: str) -> None:
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    assert path.exists(), f"there is no {name}"
    assert not anchor or anchor in anchors(path), f"{path.name} has no heading #{anchor}"


def named_paths() -> list[str]:
    """Paths of files and folders that the page about the architecture names, but for those with a placeholder."""
    prose, blocks = split(ROOT / "docs" / "architecture.md")
    drawn = itertools.chain.from_iterable(re.findall(r"<[bi]>(.+?)</[bi]>", block.text) for block in blocks)
    rooms = {path.name for path in loading.PACKAGE.iterdir()} | {"bench", "docs", "tests"}
    found = {name for name in (*spans(prose), *drawn) if "/" in name and name.partition("/")[0] in rooms}
    return sorted(name for name in found if not re.search(r"\b(NAME|X)\b", name))


def test_paths_of_the_architecture_exist() -> None:
    assert len(named_paths()) > 60
    missing = [name for name in named_paths() if not any((top / name).exists() for top in (ROOT, loading.PACKAGE))]
    assert missing == []


def test_every_column_is_explained() -> None:
    prose, _ = split(ROOT / "docs" / "reading-the-table.md")
    section = prose.partition("## Every column\n")[2].partition("\n## ")[0]
    keys = [key for line in section.splitlines() if line.startswith("| `") for key in spans(line.split("|")[1])]
    assert sorted(keys) == sorted(COLUMNS)


def test_titles_of_columns_are_those_of_the_tables() -> None:
    """In the second column of the same list; what stands elsewhere than in a column of its own says where."""
    prose, _ = split(ROOT / "docs" / "reading-the-table.md")
    section = prose.partition("## Every column\n")[2].partition("\n## ")[0]
    titles = {
        keys[0]: line.split("|")[2].strip()
        for line in section.splitlines()
        if line.startswith("| `") and len(keys := spans(line.split("|")[1])) == 1
    }
    elsewhere = re.compile(r"|notes|verdict|a `\*` behind the number|(in|under|above) the .*|in the titles? of .*")
    named = {key: title for key, title in titles.items() if not elsewhere.fullmatch(title)}
    assert len(named) > 25
    assert {key: title for key, title in named.items() if not title.startswith(COLUMNS[key].title)} == {}


@pytest.mark.parametrize("kind", [api.Task, api.Exporter, api.Variant, api.Runtime, api.Session])
def test_what_an_author_can_say_is_listed(kind: type) -> None:
    """In the first column of the page's table for each class of the interface."""
    prose, _ = split(ROOT / "docs" / "plugins.md")
    table = prose.partition(f"`{kind.__name__}` | what it is for |\n")[2].partition("\n\n")[0]
    named = [name for line in table.splitlines() for name in spans(line.split("|")[1])]
    assert sorted(named) == sorted({name for name in (*vars(kind), *kind.__annotations__) if not name.startswith("_")})


@functools.cache
def templates() -> frozenset[str]:
    """Every text in the package, with `...` where a value is put in."""
    found = set()
    for path in loading.PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values]
                found.add(re.sub(r"(?:\.\.\.)+", GAP, "".join(parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value.replace("{}", GAP))
    for path in loading.PACKAGE.rglob("*.j2"):
        text = path.read_text(encoding="utf-8")
        found |= {re.sub(r"\{\{.*?\}\}", GAP, line) for line in text.splitlines()}
        found |= set(re.findall(r'"([^"]*)"', text))
    return frozenset(found)


def is_said(message: str) -> bool:
    return any(message.strip(" .") in template for template in templates())


def quoted_messages() -> list[str]:
    blocks = [block for page in GUIDES for block in split(page)[1] if block.info == MESSAGES]
    return sorted({line for block in blocks for line in block.text.splitlines()})


@pytest.mark.parametrize("message", quoted_messages())
def test_quoted_message_is_one_of_the_program(message: str) -> None:
    assert is_said(message)


def test_quoted_message_that_is_not_would_be_found() -> None:
    assert len(quoted_messages()) > 30
    assert not is_said("another `bench` is reading ...; wait for it to end")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Rows of a short sweep over the examples, by what differs in their cells."""
    folder = tmp_path_factory.mktemp("examples")
    environment = {"BENCH_PATH": str(EXAMPLES), "BENCH_CACHE": str(folder / "cache")}
    cells = [
        REQUEST.format(part)
        for part in (
            "native/raw/numpy_layers",
            "numpy_onnx/raw/onnxruntime",
            "numpy_onnx/raw/evaluator",
            "numpy_onnx/prune-50/onnxruntime",
            "numpy_onnx/onnxsim/evaluator",
        )
    ]
    files = {name: folder / name for name in ("stdout", "stderr")}
    for arguments in (["run", *cells, "--launches", "1", "--strict"], ["show", "--format", "json"]):
        code = run_here(*arguments, folder=folder, environment=environment, quick=True, **files)
        assert code == 0, files["stderr"].read_text()
    return {row["cell"]: row for row in json.loads(files["stdout"].read_text())}


def test_examples_run_from_export_to_table(rows: dict[str, dict[str, Any]]) -> None:
    for row in rows.values():
        assert (row["status"], row["reason"]) == ("ok", None)
    own = rows[REQUEST.format("native/raw/numpy_layers")]
    assert (own["fidelity"], own["ratio"], own["num_params"]) == ("exact", 1.0, 42)
    assert own["latency_p50_ns"]
    for part in ("numpy_onnx/raw/onnxruntime", "numpy_onnx/raw/evaluator"):
        row = rows[REQUEST.format(part)]
        assert row["fidelity"] in ("exact", "close")
        assert row["metric"] == own["metric"]
        assert row["num_params"] == 42
        assert row["latency_p50_ns"]


def test_example_variant_says_what_it_lost(rows: dict[str, dict[str, Any]]) -> None:
    """Without the smaller weights the octagon is a square."""
    own, pruned = (
        rows[REQUEST.format(part)] for part in ("native/raw/numpy_layers", "numpy_onnx/prune-50/onnxruntime")
    )
    assert (own["metric"], pruned["metric"]) == (0.982, 0.801)
    assert pruned["fidelity"] == "drifted"
    assert pruned["latency_p50_ns"]


@pytest.mark.framework("torch")
def test_example_of_a_model_and_data_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    monkeypatch.setenv("BENCH_PATH", "")
    said = adopt.Options(dataset=EXAMPLES / "own" / "points.py")
    limits = Limits.of(step_s=None, memory_bytes=None)
    try:
        adopted = adopt.adopt(EXAMPLES / "own" / "classifier.py", said)
        assert adopted == adopt.Adopted(name="classifier")
        cell = Cell.from_path("classifier/torch/native/raw/pytorch/cpu/b1t1")
        judged = verify.verify(cell, prepare.artifact_of(cell, limits), None, limits)
    finally:
        catalog.forget()
    assert judged.fidelity == "exact"
    assert judged.metric_name == "accuracy"
    assert judged.metrics["accuracy"] == 0.982
