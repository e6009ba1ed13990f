"""OpenVINO on the processor, for its own format and ONNX, with a stated precision: the default may reduce it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import Arrays, NodeTime, Outputs, Runtime, Session, Task
from bench.api.names import ProviderName
from bench.plugins.engines import cpu
from bench.plugins.engines.openvino import ir
from bench.plugins.engines.openvino.session import CompiledSession
from bench.plugins.engines.openvino.settings import CACHES, PRECISIONS, settings

_UNPINNED = "no_pinning"
OPTIONS: Mapping[str, tuple[str, Mapping[str, str | int]]] = {
    "flush_denormals": ("numbers below the smallest normal one count as zero", {"CPU_DENORMALS_OPTIMIZATION": "YES"}),
    "no_dynamic_quantization": (
        "activations stay as they are where weights alone are quantized",
        {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0},
    ),
    _UNPINNED: ("threads may move between cores", {"ENABLE_CPU_PINNING": "NO"}),
}
"""Effect and properties by option. Source: "CPU Device" and "Hints" in OpenVINO 2026.4's documentation."""

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


class OpenVinoSession(CompiledSession):
    """One inference request."""

    def __init__(self, compiled: Any, model: Any, weights: Any, task: Task) -> None:
        super().__init__(compiled, model, weights)
        self._infer = compiled.create_infer_request().infer
        self._outputs = [compiled.output(spec.name) for spec in task.outputs]

    def run(self, feeds: Arrays) -> Outputs:
        results = self._infer(feeds, share_inputs=True)  # inputs are not copied
        return [results[output] for output in self._outputs]


class OpenVino(Runtime):
    """Opens ONNX files, and OpenVINO IR in one archive."""

    title = "OpenVINO"
    requires = ("openvino",)
    extra = "openvino"
    formats = ("openvino", "onnx")
    default_for = ("openvino",)
    generates = True
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
        name = ProviderName.parse(provider)
        if _UNPINNED in name.options:
            return ""
        instead = name.with_options([_UNPINNED])
        return f"OpenVINO pins the threads of all sessions to the same cores: serve several as openvino/{instead}"

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        if task.request is None:
            return OpenVinoSession(*self._compile(artifact, provider, threads), task)
        from bench.plugins.engines.openvino.stepper import OpenVinoStepper, make_stateful

        precision, num_bytes = CACHES[ProviderName.parse(provider).device]
        make = functools.partial(make_stateful, request=task.request, reorders=artifact.suffix != ".onnx")
        compiled = self._compile(artifact, provider, threads, make, KV_CACHE_PRECISION=precision)
        return OpenVinoStepper(*compiled, task.request, num_bytes, None if artifact.suffix == ".onnx" else artifact)

    def profile_nodes(
        self, artifact: Path, *, task: Task, source: str, provider: str, threads: int, feeds: Arrays, num_runs: int
    ) -> Sequence[NodeTime] | None:
        from bench.plugins.engines.openvino import profile

        compiled, model, _weights = self._compile(artifact, provider, threads, PERF_COUNT=True)
        return profile.profile(compiled, model, provider=provider, feeds=feeds, num_runs=num_runs)

    def _compile(
        self,
        artifact: Path,
        provider: str,
        threads: int,
        change: Callable[[Any], object] | None = None,
        **more: Any,
    ) -> tuple[Any, Any, Any]:
        """A compiled model, the model it was compiled from, and the memory that holds its weights."""
        core = ir.import_openvino().Core()
        if artifact.suffix == ".onnx":
            model, weights = core.read_model(artifact), None
        else:
            model, weights = ir.read(core, artifact)
        if change is not None:
            change(model)
        return core.compile_model(model, "CPU", {**_settings(provider, threads), **more}), model, weights


def _settings(provider: str, threads: int) -> dict[str, Any]:
    """Properties to compile with."""
    name = ProviderName.parse(provider)
    properties = settings(name.device, threads)
    for option in name.options:
        properties |= OPTIONS[option][1]
    return properties
