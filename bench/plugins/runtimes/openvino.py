"""OpenVINO on the processor, for its own format and ONNX, with a stated precision: the default may reduce it."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import Arrays, NodeTime, Outputs, Runtime, Session, Task, placed
from bench.plugins.engines import cpu
from bench.plugins.engines.openvino import ir

PRECISIONS = {"cpu": "f32", "cpu-bf16": "bf16"}
"""OpenVINO's name of the precision to compile for, by provider. By default OpenVINO takes bfloat16 where the processor
has it, and float16 on Arm."""
UNPINNED = "no_pinning"
OPTIONS: Mapping[str, tuple[str, Mapping[str, str | int]]] = {
    "flush_denormals": ("numbers below the smallest normal one count as zero", {"CPU_DENORMALS_OPTIMIZATION": "YES"}),
    "no_dynamic_quantization": (
        "activations stay as they are where weights alone are quantized",
        {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0},
    ),
    UNPINNED: ("threads may move between cores", {"ENABLE_CPU_PINNING": "NO"}),
}
"""Effect and properties by option. Source: "CPU Device" and "Hints" in OpenVINO 2026.4's documentation."""
REDUCED = {"u8": "int8", "i8": "int8", "bf16": "bfloat16", "f16": "float16"}
"""Names that results use for the precisions below float32, by OpenVINO's names, the most reduced first."""
PRODUCTS = {"Convolution", "Deconvolution", "FullyConnected", "MatMul", "RNNCell", "RNNSeq", "Subgraph"}
"""Types of layers that multiply matrices in a compiled model; a `Subgraph` is several layers compiled into one."""


CODE = """\
import tarfile
import tempfile

import openvino


def load(path, outputs):
    core = openvino.Core()
    settings = {settings}
    if path.suffix == ".onnx":
        compiled = core.compile_model(path, "CPU", settings)
    else:  # OpenVINO IR, its two files in one archive
        with tempfile.TemporaryDirectory() as folder, tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
            compiled = core.compile_model(f"{{folder}}/model.xml", "CPU", settings)
    ports = [compiled.output(name) for name in outputs]
    infer = compiled.create_infer_request().infer

    def run(feeds):
        results = infer(dict(feeds))
        return {{name: results[port] for name, port in zip(outputs, ports, strict=True)}}

    return run
"""


class OpenVinoSession(Session):
    """One inference request."""

    def __init__(self, compiled: Any, model: Any, weights: Any, task: Task) -> None:
        self._compiled, self._model, self._weights = compiled, model, weights
        self._infer = compiled.create_infer_request().infer
        self._outputs = [compiled.output(spec.name) for spec in task.outputs]

    # Read after loading, which is timed.
    @functools.cached_property
    def precision(self) -> str:  # type: ignore[override]
        """The most reduced precision in which the compiled model multiplies."""
        layers = [node.get_rt_info() for node in self._compiled.get_runtime_model().get_ops()]
        ran = {info["runtimePrecision"].astype(str) for info in layers if info["layerType"].astype(str) in PRODUCTS}
        return next((name for reduced, name in REDUCED.items() if reduced in ran), "float32")

    @functools.cached_property
    def num_params(self) -> int | None:  # type: ignore[override]
        """Parameters of the model that was compiled."""
        return ir.num_params(self._model)

    def run(self, feeds: Arrays) -> Outputs:
        results = self._infer(feeds, share_inputs=True)  # inputs are not copied
        return [results[output] for output in self._outputs]


class OpenVino(Runtime):
    """Opens ONNX files, and OpenVINO IR in one archive."""

    requires = ("openvino",)
    extra = "openvino"
    formats = ("openvino", "onnx")
    default_for = ("openvino",)
    options = {name: effect for name, (effect, _) in OPTIONS.items()}

    def providers(self) -> tuple[str, ...]:
        return tuple(PRECISIONS) if cpu.multiplies_bfloat16() else ("cpu",)

    def import_packages(self) -> None:
        ir.import_openvino()

    def code(self, *, provider: str, threads: int) -> str | None:
        return CODE.format(settings=json.dumps(_settings(provider, threads)))

    def runs_sessions_at_once(self) -> bool:
        return True

    def note_on_several(self, provider: str) -> str:
        if UNPINNED in placed.split(provider)[1]:
            return ""
        instead = placed.name_of(provider, [UNPINNED])
        return f"OpenVINO pins the threads of all sessions to the same cores: serve several as openvino/{instead}"

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        compiled, model, weights = self._compile(artifact, provider, threads)
        return OpenVinoSession(compiled, model, weights, task)

    def profile_nodes(
        self, artifact: Path, *, task: Task, source: str, provider: str, threads: int, feeds: Arrays, num_runs: int
    ) -> Sequence[NodeTime] | None:
        from bench.plugins.engines.openvino import profile

        compiled, model, _weights = self._compile(artifact, provider, threads, PERF_COUNT=True)
        return profile.profile(compiled, model, provider=provider, feeds=feeds, num_runs=num_runs)

    def _compile(self, artifact: Path, provider: str, threads: int, **more: Any) -> tuple[Any, Any, Any]:
        """A compiled model, the model it was compiled from, and the memory that holds its weights."""
        self.check_provider(provider)
        core = ir.import_openvino().Core()
        if artifact.suffix == ".onnx":
            model, weights = core.read_model(artifact), None
        else:
            model, weights = ir.read(core, artifact)
        return core.compile_model(model, "CPU", {**_settings(provider, threads), **more}), model, weights


def _settings(provider: str, threads: int) -> dict[str, Any]:
    """Properties to compile with."""
    name, options = placed.split(provider)
    found = {"INFERENCE_PRECISION_HINT": PRECISIONS[name], "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}
    for option in options:
        found |= OPTIONS[option][1]
    return found
