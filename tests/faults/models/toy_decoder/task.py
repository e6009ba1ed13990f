"""A decoder without a network: what follows a token depends on it and on its place alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.api import Arrays, Points, Samples, Task, TensorSpec
from bench.api.decoder import IDS, LOGITS, Decoder

VOCABULARY = 32
PAD, END = 0, 1
MOST = 512


class ToyDecoder(Task):
    """Its texts are what an honest engine generates, so that their tokens are the likeliest."""

    sources = ("null",)
    inputs = (TensorSpec(name=IDS, dtype="int64", shape=("batch", "tokens")),)
    outputs = (TensorSpec(name=LOGITS, dtype="float32", shape=("batch", "tokens", VOCABULARY)),)
    weights = "weights.json"
    metric_name = "nats"
    higher_is_better = False
    max_metric_loss = 0.1

    @property
    def decoder(self) -> Decoder:
        return Decoder(
            num_layers=1,
            num_heads=2,
            num_groups=1,
            head_size=4,
            vocabulary=VOCABULARY,
            max_positions=MOST,
            weights_read=1000,
            pad_id=PAD,
            end_id=END,
        )

    def build(self, source: str, weights: Path) -> Any:
        raise NotImplementedError

    def samples(self, split: str) -> Samples:
        return self.texts(split, 16)

    def texts(self, split: str, num_tokens: int) -> Samples:
        """Four texts, each from another first token."""
        ids = np.empty((4, num_tokens + 1), np.int64)
        ids[:, 0] = [3, 7, 11, 20] if split == "test" else [4, 5, 6, 9]
        for place in range(num_tokens):
            ids[:, place + 1] = follows(ids[:, place], place + 1)
        return Samples(inputs={IDS: ids[:, :-1]}, targets=[*ids[:, None, 1:]], names=("a", "b", "c", "d"))

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        return self.metrics(outputs, targets)["nats"]

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        return {"nats": float(self._nats(outputs, targets).mean())}

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        nats = self._nats(outputs, targets).mean(axis=1)
        return Points(values=-nats, score=float(nats.mean()), most=self.max_metric_loss)

    def _nats(self, outputs: Arrays, targets: Sequence[Any]) -> np.ndarray:
        ids = np.stack(targets)[:, 0]
        return -np.take_along_axis(outputs[LOGITS].astype(np.float64), ids[..., None], axis=2)[..., 0]


def follows(token: Any, depth: int) -> Any:
    """The likeliest id after a token that is number `depth` of its text, counted from 1: neither PAD nor END."""
    return 2 + (5 * token + depth) % (VOCABULARY - 2)
