"""Generation with LiteRT: the caches that one pass gives are the caches that the next pass takes, one token longer.

The interpreter lays out its memory anew for every pass, as its inputs grow: a small part of the pass. A cache that has
room from the start would save it, and would be copied in and out whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api.decoder import IDS, Request
from bench.api.generation import Stepper
from bench.onnxfile.deferred import np
from bench.plugins.engines.counted_session import CountedSession
from bench.plugins.engines.litert import LiteRtSession

if TYPE_CHECKING:
    from bench.onnxfile.weights.parameter_counts import Counted


class LiteRtStepper(CountedSession, Stepper):
    """Caches are host arrays, as the interpreter copies its outputs to and its inputs from.

    Args:
        interpreter: the interpreter of a file with the interface of one pass, see `bench.api.decoder.Decoder`.
        path: of the file.
        request: the request.

    Raises:
        ArtifactError: the file has another interface.
    """

    def __init__(self, interpreter: Any, path: Path, request: Request) -> None:
        super().__init__(request)
        decoder = request.decoder
        inputs, outputs = ([spec.name for spec in side] for side in (decoder.inputs, decoder.outputs))
        self._session = LiteRtSession(interpreter, path, inputs, outputs)
        self._past = inputs[1:]
        empty = np.zeros((1, decoder.num_groups, 0, decoder.head_size), np.float32)
        self._caches = self._empty = [empty] * len(self._past)

    @property
    def precision(self) -> str:  # type: ignore[override]
        return self._session.precision

    def count(self) -> Counted:
        """The parameters that the file stores."""
        return self._session.count()

    @property
    def depth(self) -> int:
        return int(self._caches[0].shape[2])

    def start(self, prompt: np.ndarray) -> Any:
        return self._run(prompt[None], self._empty)

    def step(self, token: int) -> Any:
        return self._run(np.array([[token]], np.int64), self._caches)

    def _run(self, ids: np.ndarray, caches: list[np.ndarray]) -> Any:
        logits, *self._caches = self._session.run({IDS: ids, **dict(zip(self._past, caches, strict=True))})
        return logits.reshape(-1)

    def close(self) -> None:
        self._session.close()
        self._caches = self._empty = []
