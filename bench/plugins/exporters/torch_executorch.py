"""ExecuTorch: a model exported by torch.export, with the parts that XNNPACK can run delegated to XNNPACK."""

from pathlib import Path
from typing import Any

from bench.api import Info, Task
from bench.onnxfile.deferred import torch
from bench.plugins.engines.pytorch.exporter import TorchExporter

_MAX_BATCH = 16
"""The largest batch that a program takes: ExecuTorch plans memory at export, for the largest sizes."""


class TorchExecuTorch(TorchExporter):
    """A `.pte` program for the sizes of the task's samples, in batches up to a limit."""

    requires = ("torch", "executorch")
    extra = "torch,executorch"
    freezes = True
    writes = "pte"

    def convert(self, model: Any, example: tuple[Any, ...], task: Task, target: Path) -> Info:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import to_edge_transform_and_lower

        program = torch.export.export(model, example, dynamic_shapes=_dynamic_batch(task))
        lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
        target.write_bytes(lowered.to_executorch().buffer)
        return {"max_batch": _MAX_BATCH}


def _dynamic_batch(task: Task) -> tuple[dict[int, Any], ...]:
    firsts = {spec.name: spec.shape[0] for spec in task.inputs if task.batched and isinstance(spec.shape[0], str)}
    batches = {first: torch.export.Dim(str(first), max=_MAX_BATCH) for first in firsts.values()}
    return tuple({0: batches[firsts[spec.name]]} if spec.name in firsts else {} for spec in task.inputs)
