"""The time of each layer in an inference, by OpenVINO's own profiler.

The profiler keeps one figure for each layer: the mean over all inferences so far, in whole microseconds. From two such
means follows the mean over the inferences after the first few. The layers are those of the compiled model, in which
several of the model's operations may be one layer.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.api import Arrays, NodeTime

_WARM_UPS = 5
_PORTS = {"Const", "Input", "Output"}
"""Types of layers that do no work."""
_MICROSECOND = datetime.timedelta(microseconds=1)


def profile(compiled: Any, model: Any, *, provider: str, feeds: Arrays, num_runs: int) -> Sequence[NodeTime]:
    """Run a compiled model and read the mean time of each layer.

    Args:
        compiled: compiled with the property `PERF_COUNT`.
        model: the model that it was compiled from, whose tensors have the names of the artifact.
        provider: the name of the provider in cells, for the answer.
        feeds: host arrays by input name, of one inference.
        num_runs: inferences to count, after `_WARM_UPS` others.
    """
    request = compiled.create_infer_request()
    means = []
    for count in (_WARM_UPS, num_runs):
        for _ in range(count):
            request.infer(dict(feeds), share_inputs=True)
        means.append(_means_us(request.profiling_info))
    tensors = {node.get_friendly_name(): _names(node.outputs()) for node in model.get_ops()}
    node_times = []
    for node in compiled.get_runtime_model().get_ordered_ops():
        layer = _Layer(node, tensors)
        if layer.kind in _PORTS or layer.name not in means[1]:
            continue
        sources = [_Layer(port.get_source_output().get_node(), tensors) for port in node.inputs()]
        total_us = means[1][layer.name] * (_WARM_UPS + num_runs) - means[0].get(layer.name, 0.0) * _WARM_UPS
        node_times.append(
            NodeTime(
                name=layer.name,
                operator=layer.kind,
                provider=provider,
                time_ns=max(0.0, 1000 * total_us / num_runs),
                reads=tuple(name for source in sources for name in source.makes),
                makes=layer.makes,
                covers=tuple(name for original in layer.originals for name in tensors.get(original) or (original,)),
            )
        )
    return node_times


def _means_us(layers: Iterable[Any]) -> dict[str, float]:
    """Mean microseconds of each layer that ran, by its name."""
    return {layer.node_name: layer.real_time / _MICROSECOND for layer in layers if layer.status.name == "EXECUTED"}


def _names(outputs: Iterable[Any]) -> tuple[str, ...]:
    return tuple(sorted(name for output in outputs for name in output.get_names()))


class _Layer:
    """A layer of the compiled model.

    Attributes:
        makes: names of the tensors that it makes: those of the last operation in it, or else the name of the layer.
    """

    def __init__(self, node: Any, tensors: Mapping[str, tuple[str, ...]]) -> None:
        info = node.get_rt_info()
        self.name: str = node.get_friendly_name()
        self.kind: str = info["layerType"].astype(str)
        self.originals = tuple(filter(None, info["originalLayersNames"].astype(str).split(",")))
        self.makes = (self.originals and tensors.get(self.originals[-1])) or (self.name,)
