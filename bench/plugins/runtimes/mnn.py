"""MNN: an engine made for mobile devices, on a processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.api import Runtime, Session, Task
from bench.api.names import ProviderName
from bench.onnxfile.deferred import np
from bench.plugins.engines.calls import CallSession
from bench.plugins.engines.lacking_types import lacking
from bench.plugins.engines.litert import as_type

_WINOGRAD_LEVEL = 3
"""MNN's number of the hint that limits the tiles of Winograd convolutions, from 0 to 3. With MNN's default of 3, errors
are 3e-4 of the largest output on super-resolution; with 2 they are 1e-6 (MNN 3.6.1)."""
_WINOGRAD = "winograd"
_KINDS = {"float32": "float", "int64": "int", "int32": "int"}
"""MNN's types of inputs, in which integers have 32 bits, by NumPy's."""
_LEVELS = {False: 2, True: 3}
"""The hint's value without and with the option."""


class Mnn(Runtime):
    """Opens `.mnn` files, in float32."""

    title = "MNN"
    requires = ("MNN",)
    extra = "more"
    formats = ("mnn",)
    imports = ("MNN.expr", "MNN.nn")
    options = {_WINOGRAD: "convolutions by Winograd's method with large tiles, which round more"}

    def refusal(self, task: Task) -> str | None:
        return super().refusal(task) or lacking(task, _KINDS)

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        import MNN.expr
        import MNN.nn

        settings = {"backend": "CPU", "precision": "high", "numThread": threads}  # normal reduces it on Arm
        manager = MNN.nn.create_runtime_manager((settings,))
        manager.set_hint(_WINOGRAD_LEVEL, _LEVELS[_WINOGRAD in ProviderName.parse(provider).options])
        inputs = [spec.name for spec in task.inputs]
        outputs = [spec.name for spec in task.outputs]
        module = MNN.nn.load_module_from_file(
            str(artifact), inputs, outputs, runtime_manager=manager, shape_mutable=True
        )
        kinds = {name: getattr(MNN.expr, kind) for name, kind in _KINDS.items()}
        dtypes = [spec.dtype for spec in task.outputs]

        def variable(array: np.ndarray) -> Any:
            placeholder = MNN.expr.placeholder(list(array.shape), MNN.expr.NCHW, kinds[array.dtype.name])
            placeholder.write(as_type(array, np.dtype(np.int32)) if array.dtype.kind == "i" else array)
            return placeholder

        return CallSession(
            lambda *variables: list(zip(module.forward([*variables]), dtypes, strict=True)),
            task,
            tensor=variable,
            array=lambda output: np.array(output[0].read(), output[1]),  # the memory is MNN's
        )
