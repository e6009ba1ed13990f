"""IREE's runtime: compiled modules on threads of IREE's own."""

import operator
from pathlib import Path

from bench.api import Runtime, Session, Task
from bench.plugins.engines.calls import CallSession


class Iree(Runtime):
    """Opens `.vmfb` modules."""

    title = "IREE"
    requires = ("iree.runtime",)
    extra = "iree"
    formats = ("vmfb",)

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        import iree.runtime

        # IREE reads its options once, before the first device is made.
        iree.runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        driver = "local-sync" if threads == 1 else "local-task"
        module = iree.runtime.load_vm_flatbuffer_file(str(artifact), driver=driver)
        return CallSession(module.main, task, tensor=lambda array: array, array=operator.methodcaller("to_host"))
