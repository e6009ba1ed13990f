"""Tests of one group run in one process: groups share what is slow to make, such as verified exports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def environment() -> dict[str, str]:
    """The variables of a session of its own, which loads no plugin that it does not name."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return inherited | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


TESTS = """
import os
import pytest

@pytest.mark.parametrize("at", [pytest.param(at, marks=pytest.mark.xdist_group(f"g{at % 2}")) for at in range(12)])
def test_at(at):
    with open("ran", "a") as file:
        file.write(f"{at % 2} {os.getpid()}\\n")
"""


def test_a_group_runs_in_one_process(tmp_path: Path) -> None:
    """pytest-xdist 3.8.0 groups nothing under pytest 9.2.0, without a word: pyproject.toml asks for an older one."""
    (tmp_path / "test_groups.py").write_text(TESTS)
    makefile = Path(__file__).parents[2] / "Makefile"
    shared = next(line for line in makefile.read_text().splitlines() if line.startswith("SHARED :=")).split()[2:]
    command = [*PYTEST, "-p", "xdist", *shared, "test_groups.py"]
    subprocess.run(command, cwd=tmp_path, env=environment(), check=True, capture_output=True)
    ran = {tuple(line.split()) for line in (tmp_path / "ran").read_text().splitlines()}
    assert len(ran) == 2, "each group has one process"
    assert {group for group, _ in ran} == {"0", "1"}


MARKED = """
import sys
import types

import pytest


@pytest.fixture
def group(request):
    return request.node.get_closest_marker("xdist_group").args[0]


@pytest.mark.framework
def test_both(group):
    assert group == "tensorflow and torch"


@pytest.mark.framework("torch")
def test_one(group):
    assert group == "torch"


@pytest.mark.framework("sklearn")
def test_another_package(group):
    assert group == "test_marked"


@pytest.mark.xdist_group("own")
@pytest.mark.framework
def test_own(group):
    assert group == "own"


@pytest.mark.framework("tensorflow")
def test_wrong(group):
    assert group == "tensorflow"
    sys.modules["torch"] = types.ModuleType("torch")
"""


def test_tests_that_import_a_framework_say_which(tmp_path: Path) -> None:
    """Tests of one framework are a group, and a test that imports another fails."""
    folder = Path(__file__).parents[1]
    (tmp_path / "test_marked.py").write_text(MARKED)
    (tmp_path / "conftest.py").write_text((folder / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    variables = environment() | {"PYTHONPATH": os.pathsep.join((str(folder), str(folder.parent)))}
    command = [*PYTEST, "test_marked.py"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, check=False, capture_output=True, text=True)
    assert "5 passed" in done.stdout, done.stdout
    assert "1 error" in done.stdout
    assert 'it imports torch; mark it with `pytest.mark.framework("tensorflow", "torch")`' in done.stdout
