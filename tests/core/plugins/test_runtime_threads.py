"""Every runtime keeps to the threads that it is given, and rests after a request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.api.cell import Cell
from bench.plugins import catalog
from support import threads_child
from support.workers import Workers

ENGINES = [
    ("native-torch", "pytorch"),
    ("torch_onnx_legacy-torch", "onnxruntime"),
    ("torch_onnx_legacy-torch", "openvino"),
    ("torch_mnn-torch", "mnn"),
    ("torch_ncnn-torch", "ncnn"),
    ("torch_executorch-torch", "executorch"),
    ("torch_iree-torch", "iree"),
    ("torch_tvm-torch", "tvm"),
    ("native-tf", "tensorflow"),
    ("tflite-tf", "litert"),
]
SAME_ENGINES = [
    ("native-torch", "torch_compile"),
    ("aot_inductor-torch", "aot_inductor"),
    ("torch_onnx_legacy-torch", "onnxruntime_bytes"),
    ("torch_onnx_legacy-torch", "onnxruntime_iobinding"),
    ("native-tf", "tensorflow_eager"),
    ("native-tf", "tensorflow_xla"),
]
"""Further runtimes of engines whose threads are tested each time."""
TASK = "super_resolution"
STRAY = {1: 0.03, 2: 0.2}
"""Share of the processor time that other threads may take: collectors and timers; and, where a pool works, the thread
that hands it its work."""

pytestmark = [
    pytest.mark.framework,
    pytest.mark.timing,
    pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs Linux's account of threads"),
]


def artifact(made: str, runtime: str, workers: Workers) -> Path:
    """The task's artifact by an exporter from a source."""
    exporter, source = made.split("-")
    if (reason := catalog.exporter(exporter).skip()) is not None:
        pytest.skip(reason)
    cell = Cell.from_path(f"{TASK}/{source}/{exporter}/raw/{runtime}/cpu/b1t1")
    return workers.artifact_of(cell).path


def spread(runtime: str, source: str, artifact: Path, threads: int) -> dict[str, Any]:
    request = {
        "runtime": runtime,
        "provider": "cpu",
        "task": TASK,
        "source": source,
        "artifact": str(artifact),
        "threads": threads,
    }
    child = Path(threads_child.__file__)
    command = [sys.executable, "-P", str(child), json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize(
    ("made", "runtime"), [*ENGINES, *(pytest.param(*case, marks=pytest.mark.thorough) for case in SAME_ENGINES)]
)
def test_as_many_threads_work_as_are_given(made: str, runtime: str, framework_worker: Workers) -> None:
    opener = catalog.runtime(runtime)
    if (reason := opener.skip()) is not None:
        pytest.skip(reason)
    path, source = artifact(made, runtime, framework_worker), made.split("-")[1]
    several = len(os.sched_getaffinity(0)) > 1 and not opener.one_thread_only()
    for threads in STRAY if several else [1]:
        found = spread(runtime, source, path, threads)
        assert sum(found["shares"][threads:]) <= STRAY[threads], f"{threads} threads: {found['shares']}"
        assert found["shares"][threads - 1] > 0.1, f"{threads} threads: {found['shares']}"
        assert found["quiet"], "threads go on spinning after a request"
