"""onnxsim: folds constants and runs the optimizer's passes until nothing changes."""

import inspect
from pathlib import Path
from typing import Any

from bench.api import Info, Task, Variant
from bench.api.arrays import STRING
from bench.api.errors import ArtifactError, RefusedError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.edits.opset import complete, is_complete
from bench.onnxfile.file.lazy import read

_INLINES_BRANCHES = "eliminate_if_with_const_cond"


class OnnxSim(Variant):
    """The simplified graph, which onnxsim itself compares with the original on two training samples.

    The fact `skipped` names the passes that were left out because onnxsim breaks the graph with them.
    """

    portable = True
    requires = ("onnxsim", "onnxruntime", "onnx")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        if strings := [spec.name for spec in task.outputs if spec.dtype == STRING]:
            raise RefusedError(f"onnxsim compares outputs as numbers, and {strings[0]!r} holds strings")
        from bench.plugins.engines.onnxsim_alone import onnxsim

        inputs = task.samples("train").inputs
        settings: dict[str, Any] = {
            "check_n": 1,
            # Real samples: a random array is no valid input to a model that takes token numbers.
            "input_data": {name: array[:2] if task.batched else array[0, ...] for name, array in inputs.items()},
            # The tolerances of onnxsim are per element, stricter than `Task.close`.
            "check_rtol": 1e-3,
            "check_atol": task.close,
            "certify": False,
        }
        known = inspect.signature(onnxsim.simplify).parameters  # releases before 0.6 have tolerances of their own
        settings = {name: value for name, value in settings.items() if name in known}
        info: Info = {}
        # Of a path, the weights are in memory once less.
        model_or_path = str(source) if is_complete(read(source).model) else complete(onnx.load(source), task)
        try:
            model, same = onnxsim.simplify(model_or_path, **settings)
        except RuntimeError as error:
            # The pass puts a branch within a branch before the nodes that it reads (onnxsim 0.8.1).
            if "topologically sorted" not in str(error):
                raise
            model, same = onnxsim.simplify(model_or_path, **settings, skipped_optimizers=[_INLINES_BRANCHES])
            info = {"skipped": [_INLINES_BRANCHES]}
        if not same:
            raise ArtifactError("onnxsim says that its check failed: the simplified model gives other outputs")
        onnx.save(model, target)
        return info
