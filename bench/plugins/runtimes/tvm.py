"""Apache TVM's virtual machine: a compiled model on TVM's own threads."""

import tempfile
from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Runtime, Session, Task
from bench.api.errors import InputError, suggest


class TvmSession(Session):
    """The function `main` of a virtual machine."""

    def __init__(self, machine: Any, task: Task) -> None:
        import tvm

        self._call = machine["main"]
        self._tensor = tvm.runtime.tensor
        self._names = [spec.name for spec in task.inputs]
        self._is_single = len(task.outputs) == 1

    def run(self, feeds: Arrays) -> Outputs:
        outputs = self._call(*[self._tensor(feeds[name]) for name in self._names])
        return [output.numpy() for output in ([outputs] if self._is_single else outputs)]

    def close(self) -> None:
        self._call = None


class Tvm(Runtime):
    """Opens shared libraries that TVM compiled here: they are code, and run as such."""

    requires = ("tvm",)
    extra = "tvm"
    formats = ("tvm",)

    def environment(self, threads: int) -> dict[str, str]:
        return {"TVM_NUM_THREADS": str(threads)}

    def import_packages(self) -> None:
        import tvm  # noqa: F401

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        if provider not in self.providers():
            raise InputError(f"{self.name} has no provider {provider!r}; {suggest(provider, self.providers())}")
        import tvm
        from tvm import relax

        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder, "model.so")  # it goes by the name's end
            library.symlink_to(artifact.resolve())
            loaded = tvm.runtime.load_module(str(library))
        return TvmSession(relax.VirtualMachine(loaded, tvm.cpu()), task)
