"""A language model of Python source: what follows each token of a piece of the standard library, by a small Llama.

A request of this task scores a text: it gives the logits of every position at once, as the prefill of a generation
does.

Shapes: N samples, T tokens (256), V vocabulary.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bench.api import Points, Samples, Task, TensorSpec
from bench.api.decoder import Decoder
from bench.api.errors import InputError
from bench.api.loading import dataset_path, load_module

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray]

NUM_TOKENS = 256
VOCABULARY = 4096
NUM_WEIGHTS = 5_770_496
"""The embeddings are the head as well, so that a pass reads them all."""
NUM_SAMPLES = {"train": 16, "test": 48}
"""Of `test`: as many as show a loss of 1 % at most of each of four deployments of which the fastest is shipped."""
NUM_TEXTS = {"train": 16, "test": 64}
"""Of a generation, which are read token by token: of many texts a few tokens tell more than many tokens of a few."""

ROWS = 16
"""Tokens whose logits fit a processor's cache in float64, which temporaries of a whole sample would not."""


class CodegenLm(Task):
    """A decoder of Llama's architecture on the standard library of Python."""

    requires = ("tokenizers",)
    extra = "torch"
    sources = ("torch", "tf")
    inputs = (TensorSpec(name="input_ids", dtype="int64", shape=("batch", "tokens")),)
    outputs = (TensorSpec(name="logits", dtype="float32", shape=("batch", "tokens", VOCABULARY)),)
    dataset = "python_stdlib"
    packages = ("numpy", "safetensors", "tokenizers", "transformers")
    metric_name = "bits_per_byte"
    higher_is_better = False
    close = 1e-4
    max_metric_loss = 0.1  # an eighth of what the network gains over a byte 5-gram model

    def build(self, source: str, weights: Path) -> Any:
        if source not in self.sources:
            raise InputError(f"{self.name} cannot be built in {source!r}; it can in: {', '.join(self.sources)}")
        return self.module(f"{source}_model").build(weights)

    @property
    def decoder(self) -> Decoder:
        config = json.loads((self.folder / "config.json").read_text())
        return Decoder(
            num_layers=config["num_hidden_layers"],
            num_heads=config["num_attention_heads"],
            num_groups=config["num_key_value_heads"],
            head_size=config["head_dim"],
            vocabulary=config["vocab_size"],
            max_positions=config["max_position_embeddings"],
            weights_read=NUM_WEIGHTS,
            end_id=config["eos_token_id"],
        )

    def build_step(self, source: str, weights: Path) -> Any:
        if source not in self.sources:
            raise InputError(f"{self.name} cannot be built in {source!r}; it can in: {', '.join(self.sources)}")
        return self.module(f"{source}_model").build_step(weights)

    def samples(self, split: str) -> Samples:
        """Token ids, int64 (N, T), as inputs; the ids that follow them and their bytes, int64 (2, T), as targets.

        A sample is a window of a module, from the id that stands before each text to the token before the last. Of all
        windows of the split's modules 48 (`test`) or 16 (`train`) are drawn by the order of their hashes, so the same
        ones always.
        """
        if split not in NUM_SAMPLES:
            raise InputError(f"no split {split!r}; there are: {', '.join(NUM_SAMPLES)}")
        return self._as_samples(self._windows(split)[: NUM_SAMPLES[split]])

    def texts(self, split: str, num_tokens: int) -> Samples:
        """Windows of `num_tokens` ids, drawn from those of all modules of the split as `samples` draws its own."""
        if split not in NUM_TEXTS:
            raise InputError(f"no split {split!r}; there are: {', '.join(NUM_TEXTS)}")
        return self._as_samples(self._windows(split, num_tokens)[: NUM_TEXTS[split]])

    def confirmation(self) -> Samples:
        """The windows that follow those of the `test` split in its order, twice as many."""
        windows = self._windows("test")
        return self._as_samples(windows[NUM_SAMPLES["test"] : 3 * NUM_SAMPLES["test"]])

    def _windows(self, split: str, num_tokens: int = NUM_TOKENS) -> list[tuple[str, list[int]]]:
        """The whole windows of a split's modules with their names, in an order that looks drawn by lot."""
        tokens = self.module("tokens")
        modules = self.sources_of_python().load(split)
        texts = tokens.encode(tokens.load(), [module.text for module in modules])
        windows = []
        for module, (_, *ids) in zip(modules, texts, strict=True):
            starts = range(0, len(ids) - num_tokens + 1, num_tokens)
            windows += [(f"{module.path}:{start}", ids[start : start + num_tokens]) for start in starts]
        return sorted(windows, key=lambda window: hashlib.sha256(window[0].encode()).digest())

    def _as_samples(self, windows: Sequence[tuple[str, list[int]]]) -> Samples:
        import numpy as np

        tokens = self.module("tokens")
        num_bytes_V = tokens.num_bytes(tokens.load())
        ids_NT = np.array([ids for _, ids in windows], np.int64)
        before_N1 = np.zeros((len(windows), 1), np.int64)
        return Samples(
            inputs={"input_ids": np.concatenate([before_N1, ids_NT[:, :-1]], axis=1)},
            targets=[*np.stack([ids_NT, num_bytes_V[ids_NT]], axis=1)],
            names=tuple(name for name, _ in windows),
        )

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        """Cross-entropy in nats a token."""
        return float(_nats(outputs, targets).mean())

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        """Bits for each byte of the texts, and the share of tokens that are the likeliest; both NaN if a logit is."""
        import numpy as np

        logits_NTV = outputs["logits"]
        if np.isnan(logits_NTV).any():
            return dict.fromkeys(("bits_per_byte", "accuracy"), float("nan"))
        ids_NT, num_bytes_NT = np.stack(targets, axis=1)
        bits = float(_nats(outputs, targets).sum() / np.log(2) / num_bytes_NT.sum())
        return {"bits_per_byte": bits, "accuracy": float(np.mean(logits_NTV.argmax(axis=2) == ids_NT))}

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        """What each window takes in bits, over the bytes of a window in the mean, below zero: more is better."""
        import numpy as np

        _, num_bytes_NT = np.stack(targets, axis=1)
        bits_N = _nats(outputs, targets).sum(axis=1) / np.log(2) / num_bytes_NT.sum(axis=1).mean()
        most = self.max_metric_loss
        taken = f"a window is taken to lose at most {most:g} bits a byte"
        return Points(values=-bits_N, score=float(bits_N.mean()), most=most, convention=taken)

    def sources_of_python(self) -> ModuleType:
        """The module of the data set."""
        assert self.dataset is not None
        return load_module(dataset_path(self.dataset))


def _nats(outputs: Arrays, targets: Sequence[Any]) -> np.ndarray:
    """Minus the logarithm of the probability of each token that follows, float64 (N, T)."""
    import numpy as np

    ids_NT, _ = np.stack(targets, axis=1)
    logits_NTV = outputs["logits"]
    assert logits_NTV.shape[:2] == ids_NT.shape
    logits_RV = logits_NTV.reshape(-1, logits_NTV.shape[-1])  # R: tokens of all samples
    log_sum_R = np.empty(len(logits_RV))
    for start in range(0, len(logits_RV), ROWS):
        rows = slice(start, start + ROWS)
        scaled_RV = logits_RV[rows].astype(np.float64)
        highest_R = scaled_RV.max(axis=1)
        scaled_RV -= highest_R[:, None]
        np.exp(scaled_RV, out=scaled_RV)
        log_sum_R[rows] = np.log(scaled_RV.sum(axis=1)) + highest_R
    right_R = np.take_along_axis(logits_RV, ids_NT.reshape(-1, 1), axis=1)[:, 0]
    return (log_sum_R - right_R.astype(np.float64)).reshape(ids_NT.shape)
