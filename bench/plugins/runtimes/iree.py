"""IREE's runtime: compiled modules on its own threads."""

from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Runtime, Session, Task
from bench.api.errors import InputError, suggest


class IreeSession(Session):
    """The one function of a module."""

    def __init__(self, module: Any, task: Task) -> None:
        self._call = module.main
        self._names = [spec.name for spec in task.inputs]

    def run(self, feeds: Arrays) -> Outputs:
        outputs = self._call(*[feeds[name] for name in self._names])
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return [output.to_host() for output in outputs]

    def close(self) -> None:
        self._call = None


class Iree(Runtime):
    """Opens `.vmfb` modules."""

    requires = ("iree.runtime",)
    extra = "iree"
    formats = ("vmfb",)

    def import_packages(self) -> None:
        import iree.runtime  # noqa: F401

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        if provider not in self.providers():
            raise InputError(f"{self.name} has no provider {provider!r}; {suggest(provider, self.providers())}")
        import iree.runtime

        # It reads its options once, before the first device is made.
        iree.runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        driver = "local-sync" if threads == 1 else "local-task"
        return IreeSession(iree.runtime.load_vm_flatbuffer_file(str(artifact), driver=driver), task)
