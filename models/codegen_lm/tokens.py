"""The tokenizer: byte-level BPE with GPT-2's splitting of texts, and texts of the data set as token ids.

Source of the splitting: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019; of the merges:
Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", ACL 2016.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

if TYPE_CHECKING:
    import numpy as np

PATH = Path(__file__).with_name("tokenizer.json")
END = "<|endoftext|>"
"""Stands before each text, and so ends the one before it; its id is 0."""


def train(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """A tokenizer of that many tokens, of which the first is `END` and the next 256 are the bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def load(path: Path = PATH) -> Tokenizer:
    """The tokenizer of the trained network."""
    return Tokenizer.from_file(str(path))


def encode(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[list[int]]:
    """The ids of each text, with `END` before it."""
    for text in texts:
        yield [0, *tokenizer.encode(text, add_special_tokens=False).ids]


def num_bytes(tokenizer: Tokenizer) -> np.ndarray:
    """How many bytes of text each token stands for, int64 (V,): none for `END`."""
    import numpy as np

    # A byte-level token is written with a printable character for each of its bytes.
    lengths = [len(tokenizer.id_to_token(number)) for number in range(tokenizer.get_vocab_size())]
    return np.asarray([0, *lengths[1:]], np.int64)
