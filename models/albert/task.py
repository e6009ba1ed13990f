"""Language identification: which of 36 languages a short interface string is in, by a small ALBERT.

Shapes: N samples, T tokens (64, padding included), L labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bench.api import Points, Samples, Task, TensorSpec
from bench.api.errors import InputError
from bench.api.loading import dataset_path, load_module

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray]

NUM_LABELS = 36
NUM_TOKENS = 64
"""Length of every sample: the longest text that the network takes."""
PAD, CLS, SEP = 0, 2, 3
"""Token ids that the tokenizer is trained with: padding, first token, last token."""
TEST_PER_LANGUAGE = 20
NUM_CALIBRATION = 128


class Albert(Task):
    """ALBERT with shared layers on the interface strings of a web framework."""

    requires = ("sentencepiece",)
    extra = "torch"
    sources = ("torch", "tf")
    inputs = (
        TensorSpec(name="input_ids", dtype="int64", shape=("batch", "tokens")),
        TensorSpec(name="attention_mask", dtype="int64", shape=("batch", "tokens")),
    )
    outputs = (TensorSpec(name="logits", dtype="float32", shape=("batch", NUM_LABELS)),)
    dataset = "interface_strings"
    packages = ("numpy", "safetensors", "sentencepiece", "transformers")
    metric_name = "accuracy"
    close = 1e-4
    max_metric_loss = 0.03  # about all that the network gains over counting words

    def build(self, source: str, weights: Path) -> Any:
        if source not in self.sources:
            raise InputError(f"{self.name} cannot be built in {source!r}; it can in: {', '.join(self.sources)}")
        return self.module(f"{source}_model").build(weights)

    def samples(self, split: str) -> Samples:
        """Token ids and their mask, both int64 (N, 64), as inputs; label numbers as targets; the texts as names.

        The `test` split has 20 strings a language of the data set's, the `train` split 128 in all. They are drawn
        by the order of the texts' hashes, so the same ones always.
        """
        strings = sorted(self.strings().load(split), key=_draw)
        if split == "train":
            return self.encode(strings[:NUM_CALIBRATION], self.tokenizer())
        drawn = {language: [s for s in strings if s.language == language] for language in self.strings().LANGUAGES}
        chosen = [string for same in drawn.values() for string in same[:TEST_PER_LANGUAGE]]
        return self.encode(chosen, self.tokenizer())

    def confirmation(self) -> Samples:
        """The 9,956 strings of the data set's `further` split, as `samples` has them: of another application."""
        return self.encode(sorted(self.strings().load("further"), key=_draw), self.tokenizer())

    def tokenizer(self) -> Any:
        """The SentencePiece processor that the network was trained with."""
        import sentencepiece

        return sentencepiece.SentencePieceProcessor(model_file=str(self.folder / "tokenizer.model"))

    def encode(self, strings: Sequence[Any], tokenizer: Any) -> Samples:
        """Strings of the data set as samples."""
        import numpy as np

        labels = {language: number for number, language in enumerate(self.strings().LANGUAGES)}
        input_ids_NT = np.full((len(strings), NUM_TOKENS), PAD, np.int64)
        for row_T, string in zip(input_ids_NT, strings, strict=True):
            tokens = [CLS, *tokenizer.encode(string.text)[: NUM_TOKENS - 2], SEP]
            row_T[: len(tokens)] = tokens
        return Samples(
            inputs={"input_ids": input_ids_NT, "attention_mask": (input_ids_NT != PAD).astype(np.int64)},
            targets=[labels[string.language] for string in strings],
            names=tuple(string.text for string in strings),
        )

    def loss(self, outputs: Arrays, targets: Sequence[Any]) -> float:
        """Cross-entropy in nats."""
        import numpy as np

        logits_NL = outputs["logits"].astype(np.float64)
        highest_N1 = logits_NL.max(axis=1, keepdims=True)
        log_sum_N = np.log(np.exp(logits_NL - highest_N1).sum(axis=1)) + highest_N1[:, 0]
        return float(np.mean(log_sum_N - logits_NL[np.arange(len(targets)), list(targets)]))

    def metrics(self, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
        """Accuracy, and the mean of F1 over the languages that are there or are answered; both NaN if a logit is."""
        import numpy as np

        if np.isnan(outputs["logits"]).any():
            return dict.fromkeys(("accuracy", "macro_f1"), float("nan"))
        answers_N, targets_N = outputs["logits"].argmax(axis=1), np.asarray(targets)
        f1 = []
        for label in np.union1d(answers_N, targets_N):
            answered_N, there_N = answers_N == label, targets_N == label
            f1.append(2 * np.sum(answered_N & there_N) / (np.sum(answered_N) + np.sum(there_N)))
        return {"accuracy": float(np.mean(answers_N == targets_N)), "macro_f1": float(np.mean(f1))}

    def points(self, outputs: Arrays, targets: Sequence[Any]) -> Points | str:
        """One point for each string whose language is told right."""
        import numpy as np

        values = (outputs["logits"].argmax(axis=1) == np.asarray(targets)).astype(np.float64)
        return Points(values=values, score=float(values.mean()), most=1.0)

    def strings(self) -> ModuleType:
        """The module of the data set."""
        assert self.dataset is not None
        return load_module(dataset_path(self.dataset))


def _draw(string: Any) -> bytes:
    """What to sort by for an order that looks drawn by lot and is the same for every version of everything."""
    return hashlib.sha256(string.text.encode()).digest()
