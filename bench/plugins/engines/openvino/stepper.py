"""Generation with OpenVINO: the cache is the state of an inference request, which only ids and logits go in and out of."""

from __future__ import annotations

from typing import Any

from bench.api.decoder import IDS, LOGITS, Request
from bench.api.generation import Stepper
from bench.graphs.deferred import np
from bench.plugins.engines.openvino.session import CompiledSession


def make_stateful(model: Any, request: Request) -> None:
    """Turn the caches that one pass takes and gives into a state that stays within a request, by OpenVINO's own pass.

    Args:
        model: an `openvino.Model` with the inputs and outputs of `bench.api.decoder.Decoder`.
        request: has the decoder.
    """
    from openvino._offline_transformations import apply_make_stateful_transformation

    decoder = request.decoder
    names = zip(decoder.inputs[1:], decoder.outputs[1:], strict=True)
    apply_make_stateful_transformation(model, {past.name: present.name for past, present in names})


class OpenVinoStepper(CompiledSession, Stepper):
    """One inference request of a stateful model.

    Args:
        compiled: the compiled model.
        model: the model that it was compiled from.
        weights: the memory of its weights.
        request: the request.
        cache_bytes: bytes of an element of the state.
    """

    def __init__(self, compiled: Any, model: Any, weights: Any, request: Request, cache_bytes: int) -> None:
        CompiledSession.__init__(self, compiled, model, weights)
        Stepper.__init__(self, request)
        self.cache_bytes = cache_bytes
        self._request = compiled.create_infer_request()
        self._logits = compiled.output(LOGITS)

    @property
    def depth(self) -> int:
        return int(self._request.query_state()[0].state.shape[2])

    def start(self, prompt: np.ndarray) -> Any:
        self._request.reset_state()
        return self._run(prompt[None])

    def step(self, token: int) -> Any:
        return self._run(np.array([[token]], np.int64))

    def _run(self, ids: np.ndarray) -> Any:
        return self._request.infer({IDS: ids}, share_inputs=True, share_outputs=True)[self._logits].reshape(-1)
