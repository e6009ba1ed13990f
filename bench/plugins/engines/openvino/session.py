"""What every session of a compiled model tells: the precision that it runs in, and how many parameters it has."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from bench.plugins.engines.counted_session import CountedSession

if TYPE_CHECKING:
    from bench.onnxfile.weights.parameter_counts import Counted

_REDUCED = {"u8": "int8", "i8": "int8", "bf16": "bfloat16", "f16": "float16"}
"""Names that results use for the precisions below float32, by OpenVINO's names, the most reduced first."""
_PRODUCTS = {"Convolution", "Deconvolution", "FullyConnected", "MatMul", "RNNCell", "RNNSeq", "Subgraph"}
"""Types of layers that multiply matrices in a compiled model; a `Subgraph` is several layers compiled into one."""


def precision_of(compiled: Any) -> str:
    """The most reduced precision in which a compiled model multiplies."""
    layers = [node.get_rt_info() for node in compiled.get_runtime_model().get_ops()]
    ran = {info["runtimePrecision"].astype(str) for info in layers if info["layerType"].astype(str) in _PRODUCTS}
    return next((name for reduced, name in _REDUCED.items() if reduced in ran), "float32")


class CompiledSession(CountedSession):
    """A compiled model, which is kept with the model that it was compiled from and the memory of its weights."""

    def __init__(self, compiled: Any, model: Any, weights: Any) -> None:
        self._compiled, self._model, self._weights = compiled, model, weights

    # Read after loading, which is timed.
    @functools.cached_property
    def precision(self) -> str:  # type: ignore[override]
        """See `precision_of`."""
        return precision_of(self._compiled)

    def count(self) -> Counted:
        """The parameters of the model that was compiled."""
        from bench.plugins.engines.openvino import parameters

        return parameters.of_model(self._model)
