"""onnxsim: folds constants and runs the optimizer's passes until nothing changes."""

from pathlib import Path

from bench.api import Info, Task, Variant
from bench.api.errors import ArtifactError
from bench.graphs.deferred import onnx


class OnnxSim(Variant):
    """The simplified graph, which onnxsim itself compares with the original on two training samples."""

    requires = ("onnxsim", "onnxruntime", "onnx")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        import onnxsim

        inputs = task.samples("train").inputs
        model, same = onnxsim.simplify(
            str(source),
            check_n=1,
            # Real samples: a random array is no valid input to a model that takes token numbers.
            input_data={name: array[:2] if task.batched else array[0, ...] for name, array in inputs.items()},
            # The tolerances of onnxsim are per element, stricter than `Task.close`.
            check_rtol=1e-3,
            check_atol=task.close,
            certify=False,
        )
        if not same:
            raise ArtifactError("onnxsim says that its check failed: the simplified model gives other outputs")
        onnx.save(model, target)
        return {}
