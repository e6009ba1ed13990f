"""The worker's side of the package runs in other environments: on Python 3.10, with old packages, with few of them.

The tests on other interpreters run on the one that `BENCH_OTHER_PYTHON` names, which may have NumPy, and on those that
are on this machine.
"""

from __future__ import annotations

import ast
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.api import loading
from bench.api.cell import Cell
from bench.measure.interpreter import Interpreter
from bench.measure.limits import Limits
from bench.measure.process import Child, ask_once
from bench.measure.session import Worker
from bench.pipeline import opening, operations, prepare, verify
from bench.plugins import catalog

OLDEST = (3, 10)
"""The oldest Python that a worker may run on; this project's own process needs a newer one."""
CELL = Cell.from_path("toy/null/native/raw/null/cpu/b2t1")
VERSIONS = [f"3.{minor}" for minor in range(OLDEST[1], 15) if minor != sys.version_info.minor]
LIMITS = Limits.of(step_s=60, memory_bytes=2**30)
LIMITED: dict[str, Any] = {"timeout_s": 60, "memory_bytes": None}
PLAN = {"warm_ns": 0, "target_ns": 0, "min_runs": 2, "max_runs": 2}
PARENTS = ("bench.onnxfile.picture.svg", "bench.tasks.sentence_modules", "bench.tasks.torch_models")
PARENTS += ("bench.tasks.transformers_models", "bench.tasks.torch_decoders")
PARENTS += ("bench.plugins.engines.pytorch.steps", "bench.tasks.counted_modules")
"""Modules of the rooms below that are imported only where a graph is drawn, or beside PyTorch."""
IMPORT_ALL = f"""
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import bench.api, bench.onnxfile, bench.plugins, bench.tasks
import bench.measure.worker, bench.pipeline.operations
from bench.api import loading
for room in (bench.api, bench.onnxfile, bench.plugins, bench.tasks):
    for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        if module.name not in {PARENTS!r}:
            importlib.import_module(module.name)
for path in (loading.PACKAGE / "features").glob("*/worker_requests.py"):
    importlib.import_module(f"bench.features.{{path.parent.name}}.worker_requests")
for kind in ("exporters", "models", "runtimes", "variants"):
    for path in loading.find(kind).values():
        loading.load_module(path)
print(sum(name.startswith("bench") for name in sys.modules))
"""
SEEN = '''
"""What a worker has imported."""

import sys


def packages():
    packages = {name.partition(".")[0] for name in sys.modules if not name.startswith("_")}
    return {"packages": sorted(packages - sys.stdlib_module_names)}
'''


@pytest.fixture(params=[None, *VERSIONS], ids=lambda version: version or "named")
def other(request: pytest.FixtureRequest) -> str:
    """The path of another interpreter: the one that is named, and one of each other version that is here."""
    found = known(request.param)
    if found is None:
        pytest.skip(f"no Python {request.param} here" if request.param else "BENCH_OTHER_PYTHON names no Python")
    return found


@functools.cache
def known(version: str | None) -> str | None:
    """An interpreter of a version, on the search path of commands or among those of pyenv; None for the named one."""
    if version is None:
        return os.environ.get("BENCH_OTHER_PYTHON")
    name = f"python{version}"
    places = [shutil.which(name), *Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}")]
    return next((str(path) for path in places if path and works(str(path), "sys")), None)


def works(python: str, module: str) -> bool:
    """Whether an interpreter starts and has a module; a shim of pyenv may start none."""
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


@pytest.fixture
def seen(tmp_path: Path) -> Any:
    """An operation that tells what the worker has imported, and the folder that it is imported from."""
    (tmp_path / "seen_modules.py").write_text(SEEN)
    operation = type("Operation", (), {"__module__": "seen_modules", "__qualname__": "packages"})
    return operation, tmp_path


def test_no_file_of_the_package_has_newer_syntax() -> None:
    top = loading.PACKAGE.parent
    files = [path for folder in ("bench", "models", "datasets") for path in (top / folder).rglob("*.py")]
    assert len(files) > 300
    for path in files:
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=OLDEST)


def test_all_that_a_worker_may_import_needs_no_package(tmp_path: Path) -> None:
    """Without site-packages, so without NumPy: what a plugin or an operation needs is imported where it is used."""
    import_all(sys.executable, tmp_path)


@pytest.mark.thorough
def test_all_that_a_worker_may_import_can_be_imported_on_another_python(other: str, tmp_path: Path) -> None:
    import_all(other, tmp_path)


def import_all(python: str, tmp_path: Path) -> None:
    command = [python, "-I", "-S", "-B", "-c", IMPORT_ALL, str(loading.PACKAGE.parent)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200


def test_measured_worker_imports_numpy_alone(seen: Any, session_cache: Path) -> None:
    operation, folder = seen
    with Child(environment={"PYTHONPATH": str(folder)}) as child:
        at_start = child.request(operation, timeout_s=60)["packages"]
        measured(child)
        found = child.request(operation, timeout_s=60)["packages"]
    assert {name for name in found if not name.startswith("bench_plugin_")} - {*at_start} == {"numpy"}
    assert "numpy" not in at_start


def test_outputs_are_judged_in_another_process_as_in_the_one_that_made_them(
    session_cache: Path, tmp_path: Path
) -> None:
    reference = str(verify.reference_of(catalog.task(CELL.task), LIMITS).outputs)
    with opening.worker(CELL) as child:
        told = answered(child, tmp_path)
        here = child.request(operations.verify, timeout_s=60, **opened(), reference=reference, save_outputs=None)
    made: dict[str, Any] = {"outputs": outputs(tmp_path), "reference": reference, "precision": told["precision"]}
    judged = ask_once(operations.judge, cell=CELL.path, **made, **LIMITED)
    assert told["rss_bytes"] > 2**20
    assert {**judged, **told, "rss_bytes": 0} == {**here, "rss_bytes": 0}
    assert here["fidelity"] == "exact"


@pytest.mark.thorough
def test_worker_starts_on_another_python(other: str, seen: Any) -> None:
    operation, folder = seen
    with elsewhere(other, folder) as child:
        assert child.request(Worker.protection, timeout_s=60)["memory_method"] in ("kernel", "polling")
        assert child.request(operation, timeout_s=60)["packages"] == ["bench", "seen_modules"]


@pytest.mark.thorough
def test_cell_is_measured_on_another_python(other: str, session_cache: Path, tmp_path: Path) -> None:
    if not works(other, "numpy"):
        pytest.skip(f"{other} has no NumPy")
    with elsewhere(other, tmp_path) as child:
        steady, memory = measured(child)
        told = answered(child, tmp_path)
    assert len(steady) == 2
    assert [*memory["phases"]] == ["imports", "load", "first_inference", "steady"]
    reference = str(verify.reference_of(catalog.task(CELL.task), LIMITS).outputs)
    made: dict[str, Any] = {"outputs": outputs(tmp_path), "reference": reference, "precision": told["precision"]}
    judged = ask_once(operations.judge, cell=CELL.path, **made, **LIMITED)
    assert (judged["fidelity"], judged["metrics"]) == ("exact", {"accuracy": 1.0})
    assert told["input_shapes"] == {"x": [2, 8]}


def elsewhere(python: str, folder: Path) -> Child:
    """A worker on another interpreter, which finds this package and what is in the folder beside it."""
    (folder / "bench").symlink_to(loading.PACKAGE)
    interpreter = Interpreter(python=python, package=str(folder))
    return Child(environment={"PYTHONDONTWRITEBYTECODE": "1"}, interpreter=interpreter)


def opened() -> dict[str, str]:
    return {"cell": CELL.path, "artifact": str(prepare.artifact_of(CELL, LIMITS).path)}


def inputs() -> str:
    return str(prepare.inputs_of(catalog.task(CELL.task), LIMITS))


def outputs(folder: Path) -> str:
    return str(folder / "outputs.npz")


def measured(child: Child) -> tuple[list[float], dict[str, Any]]:
    """The steady times of a burst, and the memory by phase."""
    child.request(operations.import_packages, timeout_s=60, **opened())
    child.request(operations.open_session, timeout_s=60, **opened(), inputs=inputs())
    steady = child.request(Worker.burst, timeout_s=60, **PLAN)["steady_ns"]
    return steady, child.request(Worker.finish, timeout_s=60)["memory"]


def answered(child: Child, folder: Path) -> dict[str, Any]:
    """Run the split, and keep its outputs in the folder."""
    asked = {**opened(), "inputs": inputs(), "save_outputs": outputs(folder)}
    return child.request(operations.run_split, timeout_s=60, **asked)
