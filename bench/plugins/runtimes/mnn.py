"""MNN: an engine made for mobile devices, on a processor."""

from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Runtime, Session, Task
from bench.graphs.deferred import np

WINOGRAD_LEVEL = 3
"""MNN's number of the hint that limits the tiles of Winograd convolutions, from 0 to 3. With MNN's default of 3, errors
are 3e-4 of the largest output on super-resolution; with 2 they are 1e-6 (MNN 3.6.1)."""


class MnnSession(Session):
    """One module, whose inputs are made anew for each request."""

    def __init__(self, module: Any, task: Task) -> None:
        import MNN.expr

        self._module = module
        self._expr = MNN.expr
        kinds = {"float32": MNN.expr.float, "int64": MNN.expr.int, "int32": MNN.expr.int}  # no 64 bits in MNN
        self._inputs = [(spec.name, kinds[spec.dtype]) for spec in task.inputs]
        self._outputs = task.outputs

    def run(self, feeds: Arrays) -> Outputs:
        variables = []
        for name, kind in self._inputs:
            array = feeds[name]
            variable = self._expr.placeholder(list(array.shape), self._expr.NCHW, kind)
            variable.write(array.astype(np.int32) if kind == self._expr.int else array)
            variables.append(variable)
        outputs = self._module.forward(variables)
        return [np.array(output.read()).astype(spec.dtype) for spec, output in zip(self._outputs, outputs, strict=True)]

    def close(self) -> None:
        self._module = None


class Mnn(Runtime):
    """Opens `.mnn` files, in float32."""

    requires = ("MNN",)
    extra = "more"
    formats = ("mnn",)

    def import_packages(self) -> None:
        import MNN.nn  # noqa: F401

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        self.check_provider(provider)
        import MNN.nn

        settings = {"backend": "CPU", "precision": "high", "numThread": threads}  # normal reduces it on Arm
        manager = MNN.nn.create_runtime_manager((settings,))
        manager.set_hint(WINOGRAD_LEVEL, 2)
        module = MNN.nn.load_module_from_file(
            str(artifact),
            [spec.name for spec in task.inputs],
            [spec.name for spec in task.outputs],
            runtime_manager=manager,
            shape_mutable=True,
        )
        return MnnSession(module, task)
