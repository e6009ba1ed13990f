"""onnxsim: folds constants and runs the optimizer's passes until nothing changes."""

from pathlib import Path
from typing import Any

from bench.api import Info, Task, Variant
from bench.api.errors import ArtifactError
from bench.graphs.deferred import onnx

INLINES_BRANCHES = "eliminate_if_with_const_cond"


class OnnxSim(Variant):
    """The simplified graph, which onnxsim itself compares with the original on two training samples.

    The fact `skipped` names the passes that were left out because onnxsim breaks the graph with them.
    """

    requires = ("onnxsim", "onnxruntime", "onnx")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        import onnxsim

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
        info: Info = {}
        try:
            model, same = onnxsim.simplify(str(source), **settings)
        except RuntimeError as error:
            # The pass puts a branch within a branch before the nodes that it reads (onnxsim 0.8.1).
            if "topologically sorted" not in str(error):
                raise
            model, same = onnxsim.simplify(str(source), **settings, skipped_optimizers=[INLINES_BRANCHES])
            info = {"skipped": [INLINES_BRANCHES]}
        if not same:
            raise ArtifactError("onnxsim says that its check failed: the simplified model gives other outputs")
        onnx.save(model, target)
        return info
