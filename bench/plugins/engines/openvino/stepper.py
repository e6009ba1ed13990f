"""Generation with OpenVINO: the cache is the state of an inference request; ids go in, and logits come out."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.api.decoder import IDS, LOGITS, Decoder, Request
from bench.api.generation import Stepper
from bench.onnxfile.deferred import np
from bench.plugins.engines.openvino import ir
from bench.plugins.engines.openvino.session import CompiledSession

_BEAMS = "beam_idx"
"""Name that OpenVINO's tools use for the input that reorders the cache for a beam search."""


def make_stateful(model: Any, request: Request, *, reorders: bool) -> None:
    """Turn the caches that one pass takes and gives into a state that stays within a request, by OpenVINO's own pass.

    Args:
        model: an `openvino.Model` with the inputs and outputs of `bench.api.decoder.Decoder`.
        request: has the decoder.
        reorders: whether to put a reordering of the cache behind it, as OpenVINO's tools do for a beam search: only
            then does its plugin for processors fuse attention with the state (2026.4.1). The attention of a model that
            comes from ONNX it does not fuse at all, and is slower with it.
    """
    from openvino._offline_transformations import apply_make_stateful_transformation

    decoder = request.decoder
    if reorders:
        _add_reordering(model, [spec.name for spec in decoder.inputs[1:]])
    names = zip(decoder.inputs[1:], decoder.outputs[1:], strict=True)
    apply_make_stateful_transformation(model, {past.name: present.name for past, present in names})
    if reorders:
        _begin_empty(model, decoder)


def _add_reordering(model: Any, names: Sequence[str]) -> None:
    from openvino import opset13

    beams = opset13.parameter([1], np.int32, name=_BEAMS)
    beams.output(0).get_tensor().add_names({_BEAMS})
    model.add_parameters([beams])
    batch = opset13.constant(0, dtype=np.int64)
    for name in names:
        port = model.input(name)
        readers = list(port.get_target_inputs())
        reordered = opset13.gather(port.get_node(), beams, batch)
        for reader in readers:
            reader.replace_source_output(reordered.output(0))
    model.validate_nodes_and_infer_types()


def _begin_empty(model: Any, decoder: Decoder) -> None:
    """State with which a request begins: the fused attention reads it from the graph."""
    from openvino import opset13

    shape = opset13.constant(np.array([1, decoder.num_groups, 0, decoder.head_size], np.int64))
    for node in model.get_ops():
        if node.get_type_name() == "ReadValue":
            zero = opset13.constant(0.0, dtype=node.get_output_element_type(0))
            node.set_arguments([opset13.broadcast(zero, shape)])
    model.validate_nodes_and_infer_types()


class OpenVinoStepper(CompiledSession, Stepper):
    """One inference request of a stateful model.

    Args:
        compiled: the compiled model.
        model: the model that it was compiled from.
        weights: the memory of its weights.
        request: the request.
        cache_bytes: bytes of an element of the state.
        archive: path of the archive that the model was read from; None of an ONNX file.
    """

    def __init__(
        self, compiled: Any, model: Any, weights: Any, request: Request, cache_bytes: int, archive: Path | None
    ) -> None:
        CompiledSession.__init__(self, compiled, model, weights)
        Stepper.__init__(self, request)
        self.cache_bytes, self._archive = cache_bytes, archive
        self._request = compiled.create_infer_request()
        self._logits = compiled.output(LOGITS)
        has_beams = any(_BEAMS in port.get_names() for port in compiled.inputs)
        self._further = {_BEAMS: np.zeros(1, np.int32)} if has_beams else {}

    # Read after everything that is timed.
    @functools.cached_property
    def weight_bytes(self) -> int | None:  # type: ignore[override]
        return None if self._archive is None else ir.weight_bytes(self._archive)

    @property
    def depth(self) -> int:
        return int(self._request.query_state()[0].state.shape[2])

    def start(self, prompt: np.ndarray) -> Any:
        self._request.reset_state()
        return self._run(prompt[None])

    def step(self, token: int) -> Any:
        return self._run(np.array([[token]], np.int64))

    def _run(self, ids: np.ndarray) -> Any:
        return self._request.infer({IDS: ids, **self._further}, share_inputs=True, share_outputs=True)[
            self._logits
        ].reshape(-1)
