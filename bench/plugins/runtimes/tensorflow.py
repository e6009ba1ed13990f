"""TensorFlow as it is deployed by default: the model in one tf.function, without XLA.

On the provider `cpu-bf16` TensorFlow's graph optimizer puts the operators that it deems safe into bfloat16 for oneDNN.
"""

from typing import Any

from bench.api import Task
from bench.api.decoder import Decoder
from bench.onnxfile.deferred import tf
from bench.plugins.engines import cpu
from bench.plugins.engines.tensorflow.runtime import TfRuntime, traced

BFLOAT16 = "cpu-bf16"
_EXAMPLE_SIZE = 64
"""Size of every dynamic dimension except the batch in the run that optimizes the graph."""


class TensorFlow(TfRuntime):
    """Keras models under TensorFlow on the processor."""

    default_for = ("keras",)

    def providers(self) -> tuple[str, ...]:
        return ("cpu", BFLOAT16) if cpu.multiplies_bfloat16() else ("cpu",)

    def callable(self, model: Any, task: Task | Decoder, provider: str) -> tuple[Any, str]:
        if provider == BFLOAT16:
            tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": True})
        function = traced(model, task)
        return function, _precision(function, task) if provider == BFLOAT16 else "float32"


def _precision(function: Any, task: Task | Decoder) -> str:
    """The precision of the optimized graph: the optimizer may keep float32, and does not report it.

    TensorFlow hands out the optimized graph only while the function runs for the first time.
    """
    from tensorflow.python.eager import context

    sizes = {dim: 1 for spec in task.inputs for dim in spec.shape[:1]}
    shapes = [[d if isinstance(d, int) else sizes.get(d, _EXAMPLE_SIZE) for d in spec.shape] for spec in task.inputs]
    context.context().enable_graph_collection()
    try:
        function(*[tf.ones(shape, spec.dtype) for shape, spec in zip(shapes, task.inputs, strict=True)])
        graphs = context.context().export_run_metadata().partition_graphs
    finally:
        context.context().disable_graph_collection()
    types = {node.attr["T"].type for graph in graphs for node in graph.node if "T" in node.attr}
    return "bfloat16" if tf.bfloat16.as_datatype_enum in types else "float32"
