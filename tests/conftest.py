"""Fixtures for all tests: one cache and long-lived workers for a session, and test groups that run in one process."""

from __future__ import annotations

import collections
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.measure.process import thread_environment
from bench.plugins import catalog
from support.workers import Workers

FRAMEWORKS = frozenset({"tensorflow", "torch"})
IMPORTED = pytest.StashKey[frozenset[str]]()

if "PYTEST_XDIST_WORKER" in os.environ:  # threads that wait for each other on a busy processor spin
    os.environ.update(thread_environment(1))
    os.environ.pop("COLUMNS", None)  # tables are as wide as where there is no terminal, not as pytest-xdist says


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cache of whatever has none of its own: one for all processes of the session, empty when it begins.

    `$SESSION_CACHE` names the folder where several sessions follow each other, as in `make test`.
    """
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = Path(os.environ.get("SESSION_CACHE") or base / "session-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE", str(folder))
        patch.setenv("BENCH_LEASE", str(tmp_path_factory.getbasetemp() / "lease.lock"))  # the processes run at once
        yield folder


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
    """Give each test its group: its own, or that of the tests that import a framework here, or its file."""
    if item.get_closest_marker("xdist_group") is None:
        in_process = item.get_closest_marker("framework") is not None
        item.add_marker(pytest.mark.xdist_group("framework" if in_process else item.path.stem))
        if in_process and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.slow(seconds=0.5))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note which frameworks are imported already."""
    item.stash[IMPORTED] = FRAMEWORKS & sys.modules.keys()


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Fail a test that imports a framework without the marker that keeps it out of `make test-fast`."""
    imported = (FRAMEWORKS & sys.modules.keys()) - item.stash[IMPORTED]
    if imported and item.get_closest_marker("framework") is None:
        pytest.fail(f"it imports {' and '.join(sorted(imported))}; mark it with `pytest.mark.framework`")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the groups that take longest first, so that no process is left with a long one at the end."""
    seconds: dict[str, float] = collections.defaultdict(float)
    for item in items:
        slow = item.get_closest_marker("slow")
        seconds[group(item)] += slow.kwargs["seconds"] if slow is not None else 0
    items.sort(key=lambda item: (-seconds[group(item)], group(item)))


def group(item: pytest.Item) -> str:
    """The name of a test's group."""
    marker = item.get_closest_marker("xdist_group")
    assert marker is not None
    name: str = marker.args[0]
    return name
