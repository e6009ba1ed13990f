"""Generation with CTranslate2: its `Generator` holds the loop, the choice of tokens and the cache.

Shapes: P tokens of a prompt, F forced tokens, V vocabulary.
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import Any

from bench.api.decoder import Request
from bench.api.generation import Emit, Generator, Told
from bench.onnxfile.deferred import np


class CTranslate2Generator(Generator):
    """A model in CTranslate2's format whose tokens are named after their ids.

    Args:
        artifact: an archive of the model's files.
        request: the request.
        threads: threads of an operator.
        compute_type: CTranslate2's name of the type to keep weights and to compute in.
    """

    def __init__(self, artifact: Path, request: Request, threads: int, compute_type: str) -> None:
        super().__init__(request)
        import ctranslate2

        self._view: Any = ctranslate2.StorageView.from_array
        with tempfile.TemporaryDirectory() as folder, tarfile.open(artifact, "r:") as archive:
            archive.extractall(folder, filter="data")
            how = {"device": "cpu", "compute_type": compute_type, "inter_threads": 1, "intra_threads": threads}
            self._generator: Any = ctranslate2.Generator(folder, **how)
        self.precision = self._generator.compute_type.partition("_")[0]

    def generate(self, prompt: np.ndarray, num_new: int, emit: Emit) -> Told:
        def take(step: Any) -> bool:
            emit(step.token_id)
            return False

        answer = self._generator.generate_batch(
            [[str(token) for token in prompt.tolist()]],
            max_length=num_new,
            min_length=num_new,
            end_token=[],
            sampling_topk=1,
            include_prompt_in_result=False,
            cache_static_prompt=False,
            callback=take,
        )
        return Told(num_new=len(answer[0].sequences_ids[0]), num_cached=0)

    def logits_after(self, prompt: np.ndarray, forced: np.ndarray) -> np.ndarray:
        """Of one pass over the whole text, for the engine tells no logits of a text that it goes on with."""
        ids = np.concatenate([prompt, forced[:-1]]).astype(np.int32)[None]
        lengths = np.array([ids.shape[1]], np.int32)
        logits_VV = np.array(self._generator.forward_batch(self._view(ids), self._view(lengths)))[0]
        return np.asarray(logits_VV[len(prompt) - 1 :], np.float32)

    def close(self) -> None:
        self._generator = None
