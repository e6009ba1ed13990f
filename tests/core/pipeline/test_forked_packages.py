"""Which packages are imported once for all workers that run them, and which are imported by each worker."""

from __future__ import annotations

import importlib.util

import pytest

from bench.api import Plugin, loading
from bench.api.cell import Cell
from bench.measure import namespaces
from bench.measure.process import Child, thread_environment
from bench.measure.session import Worker
from bench.measure.templates import Forked
from bench.pipeline import opening
from bench.plugins import catalog

QUICK = ("runtimes/onnxruntime", "runtimes/openvino")
STARTED: frozenset[str] = frozenset()
"""Packages that start threads or keep descriptors open when they are imported, so that each worker imports them."""

pytestmark = pytest.mark.skipif(
    not namespaces.can_be_apart(), reason="this system gives workers no namespaces of their own"
)


def plugins_by_modules() -> dict[tuple[str, ...], str]:
    """One plugin of each set of modules that templates import."""
    kinds = {"runtimes": catalog.runtime, "exporters": catalog.exporter, "variants": catalog.variant_file}
    found: dict[tuple[str, ...], str] = {}
    for kind, of_name in kinds.items():
        for name in sorted(loading.find(kind)):
            found.setdefault(opening.process(of_name(name))["modules"], f"{kind}/{name}")
    return found


@pytest.mark.parametrize("plugin", QUICK)
def test_packages_are_forked_where_they_start_no_threads(plugin: str) -> None:
    check(next(modules for modules, name in plugins_by_modules().items() if name == plugin))


@pytest.mark.framework("torch", "tensorflow")
@pytest.mark.thorough
@pytest.mark.parametrize(
    "modules", [pytest.param(modules, id=name) for modules, name in plugins_by_modules().items() if name not in QUICK]
)
def test_packages_of_all_plugins_are_forked_where_they_start_no_threads(modules: tuple[str, ...]) -> None:
    check(modules)


def check(modules: tuple[str, ...]) -> None:
    if missing := [name for name in modules if importlib.util.find_spec(name.partition(".")[0]) is None]:
        pytest.skip(f"{missing[0]} is not installed")
    with Child(environment=thread_environment(1), modules=modules) as child:
        assert isinstance(child._process, Forked) == STARTED.isdisjoint(modules)
        assert child.request(Worker.protection, timeout_s=60)


def test_cells_of_several_threads_are_started() -> None:
    """Packages start the threads of their pools when they are imported."""
    cells = [Cell.from_path(f"toy/null/native/raw/null/cpu/b1t{threads}") for threads in (1, 2)]
    for cell, is_forked in zip(cells, (True, False), strict=True):
        with opening.worker(cell) as child:
            assert isinstance(child._process, Forked) == is_forked


@pytest.mark.parametrize(
    ("plugin", "settings", "package"),
    [
        (catalog.runtime("openvino"), opening.OPENVINO_SETTINGS, "openvino"),
        (catalog.variant_file("nncf_int8"), opening.OPENVINO_SETTINGS, "nncf"),
        (catalog.runtime("tensorflow"), opening.KERAS_SETTINGS, "tensorflow"),
    ],
)
def test_packages_are_set_up_before_they_are_imported(plugin: Plugin, settings: str, package: str) -> None:
    modules = opening.process(plugin)["modules"]
    assert modules.index(settings) < modules.index(package)
