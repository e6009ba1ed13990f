"""What makes a figure be measured again: changes of what made it, and nothing else."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.api import Plugin, loading
from bench.api.cell import Cell
from bench.api.names import PluginName
from bench.pipeline import code_digests, operations, provenance, rounding
from bench.plugins import catalog, other_sizes, tuning

FILES = {
    "plugin.py": """
from bench.api import Variant
from bench.tools import sizes as counting
from bench.registry import RULES

class Mine(Variant):
    def apply(self):
        from bench.deep import low
        low.work(); counting.count()
        return RULES["x"]

    def skip(self):
        from bench import shown
        return shown.text()
""",
    "deep/low.py": """
import bench.high

def work():
    if not bench.high.top():
        raise ValueError("it does not work")
    return bench.high.top()

def idle(): return 1
""",
    "high.py": "def top(): return LEVEL\n\nLEVEL = 3\n",
    "tools/__init__.py": "",
    "tools/sizes.py": "def count(): return 1\n",
    "registry.py": "from bench import rules\nRULES = {}\ndef rule(f):\n    RULES[f.__name__] = f\n    return f\n",
    "rules.py": "from bench.registry import rule\n@rule\ndef x(): return 1\n",
    "shown.py": "def text(): return 'shown beside the figures'\n",
    "other.py": "def count(): return 2\n",
    "api/__init__.py": "class Variant:\n    pass\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `bench` with one plugin and what it imports."""
    folder = tmp_path / "bench"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(loading, "PACKAGE", folder)
    return folder


@pytest.fixture
def digest(package: Path) -> Callable[[str, str, str], str]:
    """The plugin's digest with one text of one file replaced."""

    def digest_with(name: str, old: str, new: str) -> str:
        text = FILES[name]
        assert old in text
        (package / name).write_text(text.replace(old, new))
        code_digests._parse.cache_clear()
        code_digests._digest.cache_clear()
        found = code_digests.of_plugin(Plugin(name="plugin", path=package / "plugin.py"))
        (package / name).write_text(text)
        return found

    return digest_with


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        pytest.param("plugin.py", 'RULES["x"]', 'RULES["y"]', id="the plugin itself"),
        pytest.param(
            "deep/low.py", "return bench.high.top()", "return 1 + bench.high.top()", id="imported in a method"
        ),
        pytest.param("high.py", "LEVEL = 3", "LEVEL = 4", id="a constant that the function reads"),
        pytest.param("tools/sizes.py", "return 1", "return 2", id="a module imported under another name"),
        pytest.param("rules.py", "return 1", "return 2", id="a rule that registers itself when it is imported"),
        pytest.param("tools/__init__.py", "", "print('imported')", id="what importing a package does"),
        pytest.param("api/__init__.py", "pass", "limit = 1", id="the base class"),
    ],
)
def test_a_change_of_what_makes_the_figure_counts(
    digest: Callable[[str, str, str], str], name: str, old: str, new: str
) -> None:
    assert digest(name, old, new) != digest(name, "", "")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        pytest.param("deep/low.py", "def idle(): return 1", "def idle(): return 2", id="a function that is not called"),
        pytest.param("deep/low.py", "work():", "work():  # soon\n    'Works.'", id="comment and docstring"),
        pytest.param("deep/low.py", "does not work", "works badly", id="the text of an error"),
        pytest.param("deep/low.py", "def work()", "def work() -> int", id="an annotation"),
        pytest.param("shown.py", "shown beside", "shown next to", id="what a marked method shows beside the figures"),
        pytest.param("other.py", "return 2", "return 3", id="a module that nothing imports"),
    ],
)
def test_a_change_beside_what_makes_the_figure_does_not_count(
    digest: Callable[[str, str, str], str], name: str, old: str, new: str
) -> None:
    assert digest(name, old, new) == digest(name, "", "")


def test_the_digest_of_a_package_does_not_depend_on_where_it_lies(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = code_digests.of_plugin(Plugin(name="plugin", path=package / "plugin.py"))
    moved = package.rename(tmp_path / "elsewhere").rename(tmp_path / "deeper")
    (tmp_path / "home").mkdir()
    moved = moved.rename(tmp_path / "home" / "bench")
    monkeypatch.setattr(loading, "PACKAGE", moved)
    assert code_digests.of_plugin(Plugin(name="plugin", path=moved / "plugin.py")) == before


def reached(digest: Callable[[], object]) -> set[str]:
    """Files of the package, by their paths in it, whose definitions count in a digest."""
    readings: list[code_digests._Reading] = []

    class Noted(code_digests._Reading):
        def digest(self, path: Path, name: str | None) -> str:
            readings.append(self)
            return super().digest(path, name)

    for cached in (code_digests._digest, provenance.task_digest):  # another test may have asked for the same
        cached.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_digests, "_Reading", Noted)
        digest()
    code_digests._digest.cache_clear()
    paths = {path for reading in readings for path, _ in reading._reached}
    return {path.relative_to(loading.PACKAGE).as_posix() for path in paths if path.is_relative_to(loading.PACKAGE)}


CELL = Cell.from_path("toy/null/native/raw/onnxruntime/cpu/b1t1")
ENGINE = "plugins/engines/onnxruntime"


@pytest.mark.parametrize(
    ("digest", "counts", "does_not_count"),
    [
        pytest.param(
            lambda: provenance.record_key(CELL, None),
            {"plugins/runtimes/onnxruntime.py", f"{ENGINE}/runtime.py", "plugins/models/toy/task.py"},
            {f"{ENGINE}/placement.py", f"{ENGINE}/profile.py", "api/cache.py", "api/loading.py", "plugins/catalog.py"},
            id="a latency",
        ),
        pytest.param(
            lambda: provenance.judge_digest(CELL),
            {"pipeline/quality.py", f"{ENGINE}/placement.py", f"{ENGINE}/precision.py", "onnxfile/costs/profile.py"},
            {f"{ENGINE}/profile.py", "onnxfile/picture/svg.py", "api/cache.py", "api/loading.py"},
            id="a quality",
        ),
        pytest.param(
            lambda: provenance.recipe("variants", PluginName("dedup"), catalog.variant_file("dedup")),
            {"plugins/variants/dedup.py", "onnxfile/file/digest.py", "onnxfile/weights/parameters.py"},
            {"onnxfile/picture/svg.py", "api/cache.py", "api/loading.py"},
            id="an artifact",
        ),
    ],
)
def test_what_a_figure_depends_on(digest: Callable[[], object], counts: set[str], does_not_count: set[str]) -> None:
    found = reached(digest)
    assert counts - found == set()
    assert does_not_count & found == set()
    assert not [name for name in found if name.startswith(("report/", "cli/", "decisions/", "features/"))]


def bench(copy: Path, *arguments: str) -> str:
    """Run the `bench` of a copy of the package, away from the checkout."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "BENCH_PATH": "", "BENCH_CACHE": str(copy / "cache")}
    command = [sys.executable, "-P", str(Path(__file__).parents[2] / "support" / "quick_bench.py"), *arguments]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, path
    path.write_text(text.replace(old, new))


def lines_of(results: Path, kind: str) -> int:
    return sum(
        f'"kind":"{kind}"' in line for path in results.glob("*/*.jsonl") for line in path.read_text().splitlines()
    )


OTHER_PICTURE = """

first = draw


def draw(*arguments, **options):
    return first(*arguments, **options)
"""
HELPED = """
from bench.api import Variant
from bench.onnxfile.helping import note

class Helped(Variant):
    formats = ("null",)

    def apply(self, source, target, *, option, task):
        target.write_bytes(source.read_bytes())
        return {"note": note()}
"""


@pytest.mark.thorough
def test_editing_the_picture_verifies_nothing_and_editing_a_helper_makes_its_cells_anew(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(loading.PACKAGE, copy / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "bench" / "plugins" / "variants" / "helped.py").write_text(HELPED)
    helper = copy / "bench" / "onnxfile" / "helping.py"
    helper.write_text("def note():\n    return 1\n")
    cells = ("toy/null/native/raw/null/cpu/b2t1", "toy/null/native/helped/null/cpu/b2t1")
    arguments = ("run", *cells, "--launches", "1", "--budget", "60s", "--results", "results")
    bench(copy, *arguments)
    results = copy / "results"
    made = set((copy / "cache").iterdir())
    verified = lines_of(results, "quality")
    assert verified >= 2

    with (copy / "bench" / "onnxfile" / "picture" / "svg.py").open("a") as file:
        file.write(OTHER_PICTURE)
    bench(copy, *arguments)
    assert lines_of(results, "quality") == verified
    assert set((copy / "cache").iterdir()) == made

    edit(helper, "return 1", "return 2")
    bench(copy, *arguments)
    new = set((copy / "cache").iterdir()) - made
    assert [path.name for path in new] != []
    assert len(new) == 1, "only the artifact of the variant that the helper serves is made anew"


def test_figures_of_a_search_depend_on_the_code_that_chooses_its_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = catalog.task("toy")
    kinds = [whole, tuning.tuning(whole), tuning.confirming(whole)]
    before = [provenance.task_digest(task) for task in kinds]
    assert len(set(before)) == 3
    of_function = code_digests.of_function
    monkeypatch.setattr(code_digests, "of_function", lambda made: f"{of_function(made)} changed")
    provenance.task_digest.cache_clear()
    after = [provenance.task_digest(task) for task in kinds]
    provenance.task_digest.cache_clear()
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, False]


def test_tasks_that_are_made_in_other_ways_have_other_digests() -> None:
    """Their samples, too, are kept by these digests."""
    whole = catalog.task("super_resolution")
    sized = {"height": 32, "width": 32}
    tasks = [whole, tuning.tuning(whole), tuning.confirming(whole)]
    tasks += [other_sizes.resized(task, sized) for task in tasks] + [other_sizes.resized(whole, {**sized, "width": 48})]
    assert len({provenance.task_digest(task) for task in tasks}) == len(tasks)


def test_digests_are_the_same_in_threads_that_interrupt_each_other() -> None:
    """Each collection of garbage hands over to another thread, also within the parser of CPython."""
    functions = [operations.facts, operations.explained, rounding.num_runs, tuning.tuning] * 2
    alone = [code_digests.of_function(each) for each in functions]
    code_digests._digest.cache_clear()
    code_digests._parse.cache_clear()
    thresholds, hand_over = gc.get_threshold(), lambda *_: time.sleep(0)
    gc.callbacks.append(hand_over)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(len(functions)) as pool:
            assert list(pool.map(code_digests.of_function, functions)) == alone
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(hand_over)


@pytest.mark.parametrize(("runtime", "depends"), [("onnxruntime_node", True), ("ort_web_node", True), ("mnn", False)])
def test_what_is_inspected_by_another_package_depends_on_its_version(
    runtime: str, depends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell.from_path(f"toy/null/native/raw/{runtime}/cpu/b1t1")
    digests = []
    for version in ("1.0", "1.1"):
        of_python = {"onnxruntime": version}
        monkeypatch.setattr(
            provenance, "versions", lambda requires, of=of_python: {name: of.get(name) for name in requires}
        )
        digests.append(provenance.judge_digest(cell))
    assert (digests[0] != digests[1]) == depends
    assert "onnxruntime" not in catalog.runtime(cell.runtime).packages("cpu")  # with which it does not run
