"""Generation with TensorFlow: a cache that each pass makes anew and longer, or one that stays in its place.

The first is as fast as the second where shapes may be dynamic; XLA compiles for every shape anew, and needs the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.api.decoder import Request
from bench.api.generation import Stepper
from bench.onnxfile.deferred import np, tf


class GrowingStepper(Stepper):
    """The caches that one pass gives are those that the next pass takes.

    Args:
        call: one pass: takes the tensors of `Decoder.inputs` and gives those of `Decoder.outputs`.
        request: the request.
        num_params: see `Session.num_params`.
        precision: see `Session.precision`.
    """

    def __init__(self, call: Callable[..., Any], request: Request, *, num_params: int, precision: str) -> None:
        super().__init__(request)
        self._call: Any = call
        self.num_params, self.precision = num_params, precision
        self._caches = self._empty = _zeros(request, 0)

    @property
    def depth(self) -> int:
        return int(self._caches[0].shape[2])

    def start(self, prompt: np.ndarray) -> Any:
        return self._run(prompt[None], self._empty)

    def step(self, token: int) -> Any:
        return self._run([[token]], self._caches)

    def _run(self, ids: Any, caches: list[tf.Tensor]) -> Any:
        logits, *self._caches = self._call(tf.convert_to_tensor(ids, tf.int64), *caches)
        return logits.numpy().reshape(-1)

    def close(self) -> None:
        self._call = None
        self._caches = self._empty = []


class PlacedStepper(Stepper):
    """The caches are variables with room for the longest text, which compiled functions change in place.

    Args:
        step: one pass of a decoder in Keras, with a method `placed` that takes ids (1, T), the number of tokens before
            them and caches (1, G, S, K), and gives the logits and the caches.
        request: the request.
        num_params: see `Session.num_params`.
    """

    def __init__(self, step: Any, request: Request, *, num_params: int) -> None:
        super().__init__(request)
        self.num_params, self.reserved_tokens = num_params, request.longest
        self._depth = tf.Variable(0, dtype=tf.int32)
        self._caches = [tf.Variable(cache) for cache in _zeros(request, request.longest)]

        def compiled(function: Callable[[Any, Any], Any], num_tokens: int) -> Any:
            signature = [tf.TensorSpec((1, num_tokens), tf.int64)]
            graph_function = tf.function(lambda ids: function(step, ids), jit_compile=True, input_signature=signature)
            return graph_function.get_concrete_function()  # tracing counts as loading, as for other models

        self._prefill: Any = compiled(self._after_nothing, request.num_prompt)
        self._decode: Any = compiled(self._after_cache, 1)

    def _after_nothing(self, step: Any, ids: tf.Tensor) -> tf.Tensor:
        """The pass of a prompt: the logits."""
        logits, *present = step(ids, *_zeros(self.request, 0))
        behind = self.request.longest - ids.shape[1]
        self._keep([tf.pad(each, [[0, 0], [0, 0], [0, behind], [0, 0]]) for each in present], ids.shape[1])
        return logits

    def _after_cache(self, step: Any, ids: tf.Tensor) -> tf.Tensor:
        """The pass of a token after the text so far: the logits."""
        logits, *caches = step.placed(ids, self._depth.read_value(), *[cache.read_value() for cache in self._caches])
        self._keep(caches, self._depth + ids.shape[1])
        return logits

    def _keep(self, caches: list[tf.Tensor], depth: Any) -> None:
        for variable, cache in zip(self._caches, caches, strict=True):
            variable.assign(cache)
        self._depth.assign(depth)

    @property
    def depth(self) -> int:
        return int(self._depth.numpy())

    def start(self, prompt: np.ndarray) -> Any:
        return self._prefill(tf.convert_to_tensor(prompt[None])).numpy().reshape(-1)

    def step(self, token: int) -> Any:
        return self._decode(tf.convert_to_tensor([[token]], tf.int64)).numpy().reshape(-1)

    def close(self) -> None:
        self._prefill = self._decode = self._depth = None
        self._caches = []


def _zeros(request: Request, num_tokens: int) -> list[tf.Tensor]:
    """Each layer's keys and values of so many tokens."""
    decoder = request.decoder
    shape = (1, decoder.num_groups, num_tokens, decoder.head_size)
    return [tf.zeros(shape) for _ in range(2 * decoder.num_layers)]
