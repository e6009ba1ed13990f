"""A check that a rewritten ONNX model still gives the same outputs, by running both models."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.api import Arrays, Task
from bench.api.arrays import STRING
from bench.api.errors import ArtifactError
from bench.api.fidelity import disagreeing
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.sessions import cpu_session
from bench.onnxfile.shapes.feeds import sample_feeds

NUM_SAMPLES = 2
"""More than one, because the first sample may be special, such as a text without padding."""


def check_same_outputs(before: onnx.ModelProto, after: onnx.ModelProto, task: Task) -> None:
    """Compare two models on training samples, on ONNX Runtime without optimizations of its own.

    Raises:
        ArtifactError: an output differs by more than `task.close` of its largest magnitude, in shape or in a string, or
            is not finite where it was another value.
    """
    inputs = task.samples("train").inputs
    for row in range(NUM_SAMPLES):
        check_same_on(before, after, task, sample_feeds(task, inputs, row), f"training sample {row}")


def check_same_on(before: onnx.ModelProto, after: onnx.ModelProto, task: Task, feeds: Arrays, name: str) -> None:
    """Compare two models on one request, as `check_same_outputs` does.

    Args:
        feeds: the inputs, by name.
        name: of the request, for the message.

    Raises:
        ArtifactError: as `check_same_outputs`.
    """
    names = [spec.name for spec in task.outputs]
    expected, outputs = (outputs_of(model, feeds, names) for model in (before, after))
    for spec, old, new in zip(task.outputs, expected, outputs, strict=True):
        if old.shape != new.shape:
            raise ArtifactError(f"output {spec.name} has the shape {new.shape}; before it was {old.shape}")
        if spec.dtype == STRING:
            if not np.array_equal(old, new):
                what = f"output {spec.name} of {name} has other strings"
                raise ArtifactError(f"the rewritten model is another one: {what}")
            continue
        values, right = disagreeing(new, old)  # equal infinities and NaNs are right
        difference = float(np.abs(right.astype(np.float64) - values).max(initial=0))
        scale = float(np.abs(right.astype(np.float64)).max(initial=0))
        if not (difference <= task.close * scale and math.isfinite(difference)):
            raise ArtifactError(
                f"the rewritten model is another one: output {spec.name} of {name} differs by "
                f"{difference:.3g} at a magnitude of {scale:.3g}; at most {task.close:g} of that is allowed"
            )


def outputs_of(
    model: onnx.ModelProto, feeds: Arrays, names: Sequence[str], *, optimized: bool = False
) -> list[np.ndarray]:
    """Run a model on ONNX Runtime, and return some of its outputs in the order of `names`.

    Args:
        optimized: whether ONNX Runtime may rewrite the graph.
    """
    session = cpu_session(model.SerializeToString(), optimized=optimized)
    outputs: list[np.ndarray] = session.run(list(names), dict(feeds))
    return outputs
