"""Settled cells are not measured again, changed cells are, and results can be read in any folder."""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.pipeline import provenance

if TYPE_CHECKING:
    from conftest import Harness

TOY = Path(__file__).parents[2] / "bench" / "plugins" / "models" / "toy"
FEWER_FILE = Path(__file__).parents[1] / "faults" / "variants" / "fewer.py"
BASELINE = "mine/null/native/raw/null/cpu/b1t1"
FEWER = "mine/null/native/fewer/null/cpu/b1t1"
VERSIONED = "mine/null/native/raw/versioned/cpu/b1t1"
RUN = ("run", BASELINE, FEWER, VERSIONED, "--launches", "2")
RUNTIME = """
from bench.plugins.runtimes.null import NullRuntime

class Versioned(NullRuntime):
    default_for = ()
    requires = ("fakelib",)
"""


def install(folder: Path, version: str) -> None:
    """A package for the runtime above, as an installer would leave it."""
    for old in folder.glob("fakelib-*.dist-info"):
        shutil.rmtree(old)
    info = folder / f"fakelib-{version}.dist-info"
    info.mkdir(parents=True)
    (folder / "fakelib.py").write_text("")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fakelib\nVersion: {version}\n")
    (info / "top_level.txt").write_text("fakelib\n")
    (info / "RECORD").write_text("fakelib.py,,\n")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, new_harness: type[Harness]) -> Path:
    """A folder with a task, a variant and a runtime of the test's own, once measured."""
    harness = new_harness(tmp_path_factory.mktemp("measured"))
    folder = harness.folder / "plugins"
    shutil.copytree(TOY, folder / "models" / "mine", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "variants").mkdir()
    (folder / "runtimes").mkdir()
    shutil.copy(FEWER_FILE, folder / "variants")
    (folder / "runtimes" / "versioned.py").write_text(RUNTIME)
    install(harness.folder / "site", "1.0")
    point(harness)
    with importable(harness.folder / "site"):
        harness.here(*RUN)
    return harness.folder


def point(harness: Harness) -> None:
    paths = {"BENCH_PATH": harness.folder / "plugins", "PYTHONPATH": harness.folder / "site"}
    harness.environment |= {name: str(path) for name, path in paths.items()}


@pytest.fixture
def plugins(harness: Harness, measured: Path) -> Iterator[Path]:
    """A copy of that folder, for one test to change: its plugins."""
    shutil.copytree(measured, harness.folder, dirs_exist_ok=True)
    point(harness)
    with importable(harness.folder / "site"):
        yield harness.folder / "plugins"


@contextlib.contextmanager
def importable(site: Path) -> Iterator[None]:
    """Have this process import the package from a folder, as one does that is started with `$PYTHONPATH`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        forget_packages()
        try:
            yield
        finally:
            forget_packages()


def forget_packages() -> None:
    """Have this process look anew which packages there are."""
    importlib.invalidate_caches()
    provenance.versions.cache_clear()
    provenance._distributions.cache_clear()


def new_launches(harness: Harness, *command: str) -> set[str]:
    """Cells that a run launches anew; what was stored before must stand."""
    before = set(harness.launch_ids())
    harness.here(*command)
    found = set()
    for path in harness.files():
        header, *lines = map(json.loads, path.read_text().splitlines())
        if any(line["kind"] == "launch" and line["launch"] not in before for line in lines):
            found.add(header["cell"])
    assert before <= set(harness.launch_ids())
    return found


def launches(harness: Harness) -> dict[str, int]:
    """The launches of each cell but the baseline, of which each block has two; there is one block a launch or more."""
    found = {cell: row["num_launches"] for cell, row in harness.rows().items()}
    in_blocks = found.pop(BASELINE)
    assert in_blocks % 2 == 0
    assert 2 * max(found.values()) <= in_blocks <= 2 * sum(found.values())
    return found


@pytest.mark.usefixtures("plugins")
def test_second_run_measures_nothing(harness: Harness) -> None:
    """In a process of its own: nothing by which a cell is known is of the process that measured it."""
    before = {path: path.read_bytes() for path in harness.files()}
    harness.run(*RUN)
    assert {path: path.read_bytes() for path in harness.files()} == before
    assert launches(harness) == {FEWER: 2, VERSIONED: 2}


@pytest.mark.thorough
@pytest.mark.usefixtures("plugins")
def test_more_launches_are_added_to_those_there_are(harness: Harness) -> None:
    harness.here(*RUN[:-1], "3", "--margin", "0.0001%")
    assert launches(harness) == {FEWER: 3, VERSIONED: 3}


def test_new_cell_is_measured_beside_the_baseline_and_no_other(harness: Harness, plugins: Path) -> None:
    text = (plugins / "runtimes" / "versioned.py").read_text()
    (plugins / "runtimes" / "late.py").write_text(text)
    late = "mine/null/native/raw/late/cpu/b1t1"
    assert new_launches(harness, *RUN, late) == {late, BASELINE}


def test_new_weights_are_measured_again(harness: Harness, plugins: Path) -> None:
    (plugins / "models" / "mine" / "weights.json").write_text(json.dumps({"rounds": 150, "scale": 2.0}))
    old = harness.rows()
    assert new_launches(harness, *RUN) == {BASELINE, FEWER, VERSIONED}
    new = harness.rows()
    assert launches(harness) == {FEWER: 2, VERSIONED: 2}
    assert new[BASELINE]["latency_p50_ns"] < old[BASELINE]["latency_p50_ns"] / 3  # a tenth of the work
    (plugins / "models" / "mine" / "weights.json").write_text((TOY / "weights.json").read_text())
    assert new_launches(harness, *RUN) == set()  # the old ones are known
    assert harness.rows() == old


@pytest.mark.usefixtures("plugins")
def test_new_version_of_a_package_is_measured_again(harness: Harness) -> None:
    install(harness.folder / "site", "2.0")
    forget_packages()
    assert new_launches(harness, *RUN) == {VERSIONED, BASELINE}
    versions = {line["versions"].get("fakelib") for line in harness.lines("cell") if line["cell"] == VERSIONED}
    assert versions == {"1.0", "2.0"}


@pytest.mark.thorough
def test_new_code_of_a_runtime_is_measured_again(harness: Harness, plugins: Path) -> None:
    with (plugins / "runtimes" / "versioned.py").open("a") as file:
        file.write("\nCHANGED = True\n")
    assert new_launches(harness, *RUN) == {VERSIONED, BASELINE}


@pytest.mark.thorough
@pytest.mark.usefixtures("plugins")
def test_package_that_went_away_is_a_reason(harness: Harness) -> None:
    shutil.rmtree(harness.folder / "site")
    forget_packages()
    assert new_launches(harness, *RUN) == set()
    row = harness.rows()[VERSIONED]
    assert (row["status"], row["latency_p50_ns"]) == ("skipped", None)
    assert row["reason"] == "versioned: fakelib not installed; pip install fakelib"
    num_lines = len(harness.lines("failure"))
    harness.here(*RUN)
    assert len(harness.lines("failure")) == num_lines  # said once
    install(harness.folder / "site", "1.0")
    forget_packages()
    assert new_launches(harness, *RUN) == set()
    assert harness.rows()[VERSIONED]["status"] == "ok"


@pytest.mark.thorough
@pytest.mark.usefixtures("plugins")
def test_force_measures_again(harness: Harness) -> None:
    assert new_launches(harness, *RUN, "--force") == {BASELINE, FEWER, VERSIONED}
    found = {cell: row["num_launches"] for cell, row in harness.rows().items()}
    assert found.pop(BASELINE) in (8, 10, 12)  # those of the earlier run, and two of each block of this one
    assert found == {FEWER: 2, VERSIONED: 2}
    assert new_launches(harness, "run", BASELINE, "--launches", "2", "--force") == {BASELINE}  # though it stands alone
    assert harness.rows()[FEWER]["ratio"] is not None


@pytest.mark.usefixtures("plugins")
def test_force_that_is_stopped_leaves_what_there_was(harness: Harness) -> None:
    before = {cell: row["latency_p50_ns"] for cell, row in harness.rows().items()}
    assert new_launches(harness, *RUN, "--force", "--budget", "0.001s") == set()
    assert {cell: row["latency_p50_ns"] for cell, row in harness.rows().items()} == before


@pytest.mark.usefixtures("plugins")
def test_show_in_every_format(harness: Harness) -> None:
    rows = json.loads(harness.here("show", "--format", "json"))
    assert {row["cell"] for row in rows} == {BASELINE, FEWER, VERSIONED}
    table = list(csv.DictReader(io.StringIO(harness.here("show", "--format", "csv"))))
    assert [row["cell"] for row in table] == [row["cell"] for row in rows]
    assert set(table[0]) == set(rows[0])
    texts = {format_: harness.here("show", "--format", format_).replace("\\_", "_") for format_ in ("table", "latex")}
    harness.here("show", "*/raw/*", "--format", "md", "--output", "table.md")
    texts["md"] = (harness.folder / "table.md").read_text()
    for format_, text in texts.items():
        assert "versioned" in text, format_
        assert ("fewer/" in text) == (format_ != "md"), format_  # the glob left it out


@pytest.mark.usefixtures("plugins")
def test_results_can_be_read_elsewhere(harness: Harness) -> None:
    """Moved to another folder, even without the plugins that made them."""
    rows = harness.rows()
    (harness.folder / "archive").mkdir()
    (harness.folder / "results").rename(harness.folder / "archive" / "moved")
    harness.environment["BENCH_PATH"] = ""
    assert harness.shown("--results", "archive/moved") == rows
    (machine,) = (harness.folder / "archive" / "moved").iterdir()
    other = machine.rename(machine.with_name("another-machine"))
    assert harness.shown("--results", "archive/moved") == rows
    (other / "current.json").unlink()  # it can be lost
    assert harness.shown("--results", "archive/moved") == rows
    harness.here("show", code=2)
    assert "no such folder: results" in harness.stderr()


@pytest.mark.usefixtures("plugins")
def test_results_of_one_machine_of_several_can_be_named(harness: Harness) -> None:
    """As the message about several machines says."""
    (machine,) = (harness.folder / "results").iterdir()
    rows = harness.rows()
    for name in ("one", "two"):
        shutil.copytree(machine, machine.with_name(name))
    shutil.rmtree(machine)
    harness.here("show", code=2)
    assert "give one with --results: results/one, results/two" in harness.stderr()
    assert harness.shown("--results", "results/two") == rows
