"""Apache TVM's virtual machine: a compiled model, on one thread as TVM 0.27 compiles for a processor by default."""

import shutil
import tempfile
from pathlib import Path

from bench.api import Runtime, Session, Task
from bench.plugins.engines.calls import CallSession


class Tvm(Runtime):
    """Opens shared libraries that TVM compiled on this machine; opening one runs the code in it."""

    title = "TVM"
    requires = ("tvm",)
    extra = "tvm"
    formats = ("tvm",)

    def one_thread_only(self) -> bool:
        return True

    def environment(self, threads: int) -> dict[str, str]:
        return {"TVM_NUM_THREADS": str(threads)}

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        import tvm
        from tvm import relax

        with tempfile.TemporaryDirectory() as folder:
            # TVM tells a library by the end of its name, and follows links before it looks at that.
            library = shutil.copyfile(artifact, Path(folder, "model.so"))
            loaded = tvm.runtime.load_module(str(library))
        main = relax.VirtualMachine(loaded, tvm.cpu())["main"]
        # Several outputs come in an array of TVM's own, which is no tuple.
        call = main if len(task.outputs) == 1 else lambda *tensors: tuple(main(*tensors))
        return CallSession(call, task, tensor=tvm.runtime.tensor)
