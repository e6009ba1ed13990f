"""Which packages are imported once for all workers that run them, and which are imported by each worker."""

from __future__ import annotations

import importlib.util

import pytest

from bench.measure import apart
from bench.measure.process import Child, thread_environment
from bench.measure.templates import Forked
from bench.pipeline import opening, operations

IS_FORKED = {
    "torch": True,
    "tensorflow": True,
    "onnxruntime": True,
    "ai_edge_litert": True,
    "openvino": False,  # it starts a thread when it is imported, which a fork would lack
    "nncf": False,  # it imports OpenVINO
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
    modules = (opening.KERAS_SETTINGS, operations.__name__, package)
    with Child(environment=thread_environment(1), modules=modules) as child:
        assert isinstance(child._process, Forked) == IS_FORKED[package]
