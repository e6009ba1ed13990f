"""Which packages are imported once for all workers that run them, and which are imported by each worker."""

from __future__ import annotations

import importlib.util

import pytest

from bench.api import Plugin
from bench.measure import apart
from bench.measure.process import Child, thread_environment
from bench.measure.templates import Forked
from bench.pipeline import opening, operations
from bench.plugins import catalog

IS_FORKED = {
    "torch": True,
    "tensorflow": True,
    "onnxruntime": True,
    "ai_edge_litert": True,
    "openvino": True,  # without its telemetry, which would start a thread
    "nncf": True,
}
QUICK = ("onnxruntime", "openvino")

pytestmark = pytest.mark.skipif(not apart.can_be_apart(), reason="this system gives workers no namespaces of their own")


@pytest.mark.parametrize("package", QUICK)
def test_packages_are_forked_where_they_start_no_threads(package: str) -> None:
    check(package)


@pytest.mark.framework("torch", "tensorflow")
@pytest.mark.thorough
@pytest.mark.parametrize("package", [name for name in IS_FORKED if name not in QUICK])
def test_large_packages_are_forked_where_they_start_no_threads(package: str) -> None:
    check(package)


def check(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    modules = (operations.__name__, *opening.SETTINGS, package)
    with Child(environment=thread_environment(1), modules=modules) as child:
        assert isinstance(child._process, Forked) == IS_FORKED[package]


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
