"""ALBERT-base as published, with made-up weights: the size and the speed of the real one, no skill.

Quality is fidelity to the reference's outputs. The weights file is made when it is first needed: it has 47 MB, and
nothing in it was learned.

Shapes: N samples, T tokens.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.api import Samples, TensorSpec, cache
from bench.api.errors import InputError
from bench.api.fidelity import FidelityTask

HIDDEN = 768
NUM_SAMPLES = 16
NUM_TOKENS = 128
FEWEST_TOKENS = 8
SEEDS = {"train": 1, "test": 2}
START, END, FIRST_WORD = 2, 3, 5
"""Token ids of the published vocabulary: 0 is padding, 1 is an unknown piece and 4 a masked one."""


class AlbertBase(FidelityTask):
    """ALBERT-base v2: 12 layers that share one layer's weights."""

    sources = ("torch", "tf")
    inputs = (
        TensorSpec(name="input_ids", dtype="int64", shape=("batch", "tokens")),
        TensorSpec(name="attention_mask", dtype="int64", shape=("batch", "tokens")),
    )
    outputs = (
        TensorSpec(name="last_hidden_state", dtype="float32", shape=("batch", "tokens", HIDDEN)),
        TensorSpec(name="pooler_output", dtype="float32", shape=("batch", HIDDEN)),
    )
    uses = ("albert",)
    packages = ("numpy", "safetensors", "transformers")
    weights = None

    @property
    def config_path(self) -> Path:
        return self.folder / "config.json"

    @property
    def weights_path(self) -> Path:
        """The same file for both frameworks, from the cache or made now."""

        def make(target: Path) -> dict[str, Any]:
            from safetensors.numpy import save_file

            save_file(self.module("weights").make(json.loads(self.config_path.read_text())), target)
            return {}

        code = cache.digest_files([self.config_path, self.folder / "weights.py"])
        return cache.obtain(cache.digest(["weights", code]), "weights.safetensors", make)[0]

    def build(self, source: str, weights: Path) -> Any:
        if source not in self.sources:
            raise InputError(f"{self.name} cannot be built in {source!r}; it can in: {', '.join(self.sources)}")
        return self.module(f"{source}_model", of="albert").build(weights, self.config_path)

    def samples(self, split: str) -> Samples:
        """Sixteen made-up texts of 8 to 128 tokens, the first as long as can be, padded to 128: int64 (N, T) each."""
        import numpy as np

        if split not in SEEDS:
            raise InputError(f"no split {split!r}; there are: {', '.join(SEEDS)}")
        random = np.random.default_rng(SEEDS[split])
        vocabulary_size = json.loads(self.config_path.read_text())["vocab_size"]
        lengths = random.integers(FEWEST_TOKENS, NUM_TOKENS, NUM_SAMPLES, endpoint=True)
        lengths[0] = NUM_TOKENS
        ids_NT = random.integers(FIRST_WORD, vocabulary_size, (NUM_SAMPLES, NUM_TOKENS))
        mask_NT = (np.arange(NUM_TOKENS) < lengths[:, None]).astype(np.int64)
        ids_NT[:, 0] = START
        ids_NT[np.arange(NUM_SAMPLES), lengths - 1] = END
        return Samples(inputs={"input_ids": ids_NT * mask_NT, "attention_mask": mask_NT}, targets=None)
