"""Fixtures for all tests: one cache and long-lived workers for a session, and test groups that run in one process."""

from __future__ import annotations

import collections
import compileall
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bench
from bench.measure.process import thread_environment
from bench.plugins import catalog
from support import session_cache as kept
from support.workers import Workers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRAMEWORKS = frozenset({"tensorflow", "torch"})
IMPORTED = pytest.StashKey[frozenset[str]]()

if "PYTEST_XDIST_WORKER" in os.environ:  # threads that wait for each other on a busy processor spin
    os.environ.update(thread_environment(1))
    os.environ.pop("COLUMNS", None)  # tables are as wide as where there is no terminal, not as pytest-xdist says


def pytest_sessionstart() -> None:
    """Make room in the cache that is kept between sessions, and compile the package, which all its processes import.

    Where `$PYTHONDONTWRITEBYTECODE` is set, as in many containers, each of them would compile it again.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    if folder := os.environ.get("SESSION_CACHE"):
        kept.trim(Path(folder))
    for name in ("bench", "models", "datasets"):
        compileall.compile_dir(Path(bench.__file__).parents[1] / name, quiet=2)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the tests compiled for the sessions that follow, whatever `$PYTHONDONTWRITEBYTECODE` says.

    Not while they run: a plugin that a test writes twice in a second would stay what it was first.
    """
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        found = yield
    finally:
        sys.dont_write_bytecode = before
    if imported := sorted(FRAMEWORKS & sys.modules.keys()):  # by every process, whichever tests it runs
        raise pytest.UsageError(f"collecting the tests imports {imported[0]}; see support.deferred")
    return found


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cache of whatever has none of its own: one for all processes of the session, empty when it begins.

    `$SESSION_CACHE` names a folder that is kept for the sessions that follow, as in `make test`: entries are named by
    digests of all that they are made from. A test for which the cache must be empty has a folder of its own.
    """
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = Path(os.environ.get("SESSION_CACHE") or base / "session-cache")
    with kept.used(folder), pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE", str(folder))
        patch.setenv("BENCH_LEASE", str(tmp_path_factory.getbasetemp() / "lease.lock"))  # the processes run at once
        yield folder


@pytest.fixture(scope="module", autouse=True)
def _own_environment(session_cache: Path) -> Iterator[None]:
    """The variables of this process, some of which code changes that runs in a worker otherwise."""
    kept_variables = dict(os.environ)
    yield
    for name in os.environ.keys() - kept_variables.keys():
        del os.environ[name]
    os.environ.update(kept_variables)


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """The handlers of this process, which a command that was run in it leaves ignored."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def framework_worker(session_cache: Path) -> Iterator[Workers]:
    """Workers with a framework each, and the artifacts that this session has made already."""
    with Workers() as workers:
        yield workers


@pytest.fixture
def plugin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder that comes first on the search path; the working folder and the cache are empty, too."""
    folder, work = tmp_path / "plugins", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("BENCH_PATH", str(folder))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    catalog.forget()
    yield folder
    catalog.forget()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each test its group: its own, or that of the tests that import the same frameworks here, or its file."""
    if item.get_closest_marker("xdist_group") is None:
        imported = frameworks(item)
        item.add_marker(pytest.mark.xdist_group(" and ".join(sorted(imported)) or file_group(item)))
        if imported and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.slow(seconds=0.5))
    if item.get_closest_marker("timing") is not None and "mark.timing" not in item.path.read_text(encoding="utf-8"):
        raise pytest.UsageError(f"{item.path}: write out `mark.timing`, by which the Makefile finds the file")


@pytest.fixture
def svg_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No PNG is drawn, of which a test reads nothing; its path is returned all the same."""
    from bench.report.figures import canvas

    write = canvas.save

    def save(figure: Figure, path: Path) -> Path:
        return write(figure, path) if path.suffix == ".svg" else path

    monkeypatch.setattr(canvas, "save", save)


def frameworks(item: pytest.Item) -> frozenset[str]:
    """Which of PyTorch and TensorFlow a test may import in this process: those that its marker names, or both."""
    marker = item.get_closest_marker("framework")
    return frozenset() if marker is None else FRAMEWORKS & frozenset(marker.args or FRAMEWORKS)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note which frameworks are imported already."""
    item.stash[IMPORTED] = FRAMEWORKS & sys.modules.keys()


@pytest.hookimpl(trylast=True)  # a test is torn down whatever is found here
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Fail a test that imports a framework that its marker does not name, or without the marker."""
    imported = (FRAMEWORKS & sys.modules.keys()) - item.stash[IMPORTED]
    if more := sorted(imported - frameworks(item)):
        names = ", ".join(f'"{name}"' for name in sorted(imported | frameworks(item)))
        pytest.fail(f"it imports {' and '.join(more)}; mark it with `pytest.mark.framework({names})`")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the groups that take longest first, so that no process is left with a long one at the end."""
    seconds: dict[str, float] = collections.defaultdict(float)
    for item in items:
        slow = item.get_closest_marker("slow")
        seconds[group(item)] += slow.kwargs["seconds"] if slow is not None else 0
    items.sort(key=lambda item: (-seconds[group(item)], group(item)))


def file_group(item: pytest.Item) -> str:
    """The group of the tests of one file: its name, with its folder where that is of a feature."""
    return f"{item.path.parent.name}/{item.path.stem}" if "features" in item.path.parts else item.path.stem


def group(item: pytest.Item) -> str:
    """The name of a test's group."""
    marker = item.get_closest_marker("xdist_group")
    assert marker is not None
    name: str = marker.args[0]
    return name
