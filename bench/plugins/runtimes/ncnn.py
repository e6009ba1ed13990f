"""ncnn: an engine made for phones, on a processor.

ncnn has no axis of samples, so a batch is run one sample after the other.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Runtime, Session, Task
from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import np
from bench.plugins.engines.litert import as_type

PARTS = ("model.param", "model.bin")
_REDUCED = ("use_fp16_storage", "use_fp16_arithmetic", "use_fp16_packed", "use_bf16_storage")
"""Options that let ncnn keep or compute numbers in 16 bits; the first three are on by default."""


class NcnnSession(Session):
    """One network; pnnx numbers its inputs and outputs in the task's order; ncnn lists them as it computes them."""

    def __init__(self, network: Any, task: Task) -> None:
        import ncnn

        self._network = network
        self._mat = ncnn.Mat
        self._inputs = list(zip([spec.name for spec in task.inputs], _numbered(network.input_names()), strict=True))
        self._outputs = list(zip(task.outputs, _numbered(network.output_names()), strict=True))
        self._integers = {spec.name for spec in task.inputs if spec.dtype != "float32"}

    def run(self, feeds: Arrays) -> Outputs:
        num_samples = len(next(iter(feeds.values())))
        answers = [self._run_one(feeds, row) for row in range(num_samples)]
        return [
            np.stack(parts).astype(spec.dtype, copy=False)
            for (spec, _), parts in zip(self._outputs, zip(*answers, strict=True), strict=True)
        ]

    def _run_one(self, feeds: Arrays, row: int) -> list[np.ndarray]:
        extractor = self._network.create_extractor()
        for name, layer in self._inputs:
            array = feeds[name][row]
            if name in self._integers:
                array = as_type(array, np.dtype(np.int32))
            array = np.ascontiguousarray(array)
            # A copy that ncnn owns: layers write into their inputs, and crash where these are not ncnn's.
            extractor.input(layer, self._mat(array).clone())
        outputs = []
        for spec, layer in self._outputs:
            status, mat = extractor.extract(layer)
            if status != 0:
                raise ArtifactError(f"ncnn cannot compute {spec.name} (status {status})")
            outputs.append(np.asarray(mat))  # `run` copies it
        return outputs

    def close(self) -> None:
        self._network.clear()


class Ncnn(Runtime):
    """Opens ncnn's files in one archive, in float32."""

    title = "ncnn"
    requires = ("ncnn",)
    extra = "ncnn"
    formats = ("ncnn",)

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        import ncnn

        network = ncnn.Net()
        network.opt.num_threads = threads
        for option in _REDUCED:
            setattr(network.opt, option, False)
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(artifact, "r:") as archive:
                archive.extractall(folder, filter="data")
            params, weights = (Path(folder, part) for part in PARTS)
            if unknown := _unknown_layers(params):
                raise ArtifactError(f"ncnn cannot load this model: it has no layers {', '.join(unknown)}")
            if network.load_param(str(params)) != 0 or network.load_model(str(weights)) != 0:
                raise ArtifactError("ncnn cannot load this model: its layers or weights are damaged")
        return NcnnSession(network, task)


def _numbered(names: Sequence[str]) -> list[str]:
    """Names such as `out1` and `out0` in the order of their numbers."""
    return sorted(names, key=lambda name: (len(name), name))


def _unknown_layers(params: Path) -> list[str]:
    """The kinds of layers that a `.param` file names and this ncnn does not have, each once.

    Source: https://github.com/Tencent/ncnn/wiki/param-and-model-file-structure
    """
    import ncnn

    lines = params.read_text(errors="replace").splitlines()[2:]  # a magic number, and how many layers there are
    kinds = dict.fromkeys(line.split()[0] for line in lines if line.strip())
    return [kind for kind in kinds if ncnn.layer_to_index(kind) < 0]
