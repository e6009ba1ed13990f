"""How the inputs of products go together on the samples that calibrate."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Set

from bench.api import Task
from bench.onnxfile.deferred import np, onnx, onnxruntime
from bench.plugins.engines.calibration import tuning_feeds


def grams(model: onnx.ModelProto, nodes: Set[str], ports: Mapping[str, str], task: Task) -> dict[str, np.ndarray]:
    """For the weights of products, by their name, the sum of the products of each two inputs: float64, (K, K).

    Args:
        model: in float32, as `mixing.prepared` makes it.
        nodes: names of the nodes to look at; those that are no MatMul with stored weights behind are passed over.
        ports: names of the task's inputs by those of the model.
        task: its first training samples run through the model.
    """
    lengths = {tensor.name: tensor.dims[0] for tensor in model.graph.initializer if len(tensor.dims) == 2}
    read: dict[str, list[str]] = {}
    for node in model.graph.node:
        if node.name in nodes and node.op_type == "MatMul" and node.input[1] in lengths:
            read.setdefault(node.input[1], []).append(node.input[0])
    if not read:
        return {}
    inputs, outputs = ([value.name for value in values] for values in (model.graph.input, model.graph.output))
    activations = sorted({*itertools.chain(*read.values())} - {*inputs})
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    more = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in activations]
    watched.graph.output.extend(value for value in more if value.name not in outputs)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(watched.SerializeToString(), options, providers=["CPUExecutionProvider"])
    totals: dict[str, np.ndarray] = {}
    for sample in tuning_feeds(task):
        feed = {name: sample[ports[name]] for name in inputs}
        arrays = {**feed, **dict(zip(activations, session.run(activations, feed) if activations else (), strict=True))}
        sums: dict[tuple[str, ...], np.ndarray] = {}
        for weights, names in read.items():
            if (key := tuple(names)) not in sums:  # several products may have the same inputs
                rows_RK = np.concatenate([arrays[name].reshape(-1, lengths[weights]) for name in names])
                sums[key] = rows_RK.T @ rows_RK
            totals[weights] = totals.get(weights, 0.0) + sums[key].astype(np.float64)
    return totals
