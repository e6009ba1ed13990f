"""What counting bytes reaches on the test split: `python models/codegen_lm/baselines.py`.

Byte n-gram models with Kneser-Ney smoothing, interpolated, with three discounts. Source: Chen and Goodman, "An
Empirical Study of Smoothing Techniques for Language Modeling", Computer Speech and Language 13, 1999.

Shapes: T bytes of a text, after a padding of zeros; U distinct n-grams; C distinct contexts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.plugins import catalog

ORDERS = (3, 4, 5, 6)
"""Bytes of the longest n-grams: a byte is told from one fewer."""
LONGEST = max(ORDERS)


def ngrams(text_T: np.ndarray, order: int) -> np.ndarray:
    """The n-gram that ends at each byte of a text as a number, int64 (T - LONGEST,); the byte itself comes last."""
    keys = np.zeros(len(text_T) - LONGEST, np.int64)
    for back in range(order - 1, -1, -1):
        keys = keys * 256 + text_T[LONGEST - back : len(text_T) - back]
    return keys


class Level:
    """The n-grams of one length: the probability of their last byte after the others, if that of shorter ones is known.

    Args:
        keys_U: the n-grams, in order.
        counts_U: how often each occurs, or, of all but the longest, after how many bytes.
    """

    def __init__(self, keys_U: np.ndarray, counts_U: np.ndarray) -> None:
        num = [float(np.sum(counts_U == count)) for count in range(1, 5)]
        discounts = [0.75] * 3  # where there are too few n-grams to tell
        if all(num):
            scale = num[0] / (num[0] + 2 * num[1])
            discounts = [count - (count + 1) * scale * num[count] / num[count - 1] for count in range(1, 4)]
        discount_U = np.asarray(discounts)[np.minimum(counts_U, 3) - 1]
        self._keys_U, self._kept_U = keys_U, counts_U - discount_U
        self._contexts_C, inverse_U = np.unique(keys_U // 256, return_inverse=True)
        self._total_C = np.bincount(inverse_U, counts_U)
        self._left_C = np.bincount(inverse_U, discount_U)

    def probability(self, keys_T: np.ndarray, shorter_T: np.ndarray) -> np.ndarray:
        """That of each n-gram's last byte after the others; `shorter_T` is its probability after one byte less."""
        kept_T = _find(self._keys_U, self._kept_U, keys_T)
        total_T = _find(self._contexts_C, self._total_C, keys_T // 256)
        left_T = _find(self._contexts_C, self._left_C, keys_T // 256)
        is_known_T = total_T > 0
        return np.where(is_known_T, (kept_T + left_T * shorter_T) / np.where(is_known_T, total_T, 1), shorter_T)


def _find(keys_U: np.ndarray, values_U: np.ndarray, wanted_T: np.ndarray) -> np.ndarray:
    """The value of each wanted key, and 0 of one that is not there."""
    at_T = np.searchsorted(keys_U, wanted_T).clip(max=len(keys_U) - 1)
    return np.where(keys_U[at_T] == wanted_T, values_U[at_T], 0)


def levels(texts: list[np.ndarray], order: int) -> list[Level]:
    """The levels of a model from single bytes to n-grams of `order` bytes."""
    keys_U, counts_U = np.unique(np.concatenate([ngrams(text_T, order) for text_T in texts]), return_counts=True)
    found = [Level(keys_U, counts_U)]
    for shorter in range(order - 1, 0, -1):
        keys_U, counts_U = np.unique(keys_U % 256**shorter, return_counts=True)
        found.append(Level(keys_U, counts_U))
    return found[::-1]


def bits_per_byte(model: list[Level], texts: list[np.ndarray]) -> float:
    """Bits for each byte of some texts, whose first bytes follow zeros."""
    bits, total = 0.0, 0
    for text_T in texts:
        chance_T = np.full(len(text_T) - LONGEST, 1 / 256)
        for order, level in enumerate(model, 1):
            chance_T = level.probability(ngrams(text_T, order), chance_T)
        bits -= float(np.log2(chance_T).sum())
        total += len(chance_T)
    return bits / total


def main() -> None:
    """Print the figures of each order."""
    data: Any = catalog.task("codegen_lm").sources_of_python()  # type: ignore[attr-defined]
    padding = bytes(LONGEST)
    texts = {
        split: [np.frombuffer(padding + module.text.encode(), np.uint8).astype(np.int64) for module in data.load(split)]
        for split in ("train", "test")
    }
    for order in ORDERS:
        print(f"bytes, {order}-grams: {bits_per_byte(levels(texts['train'], order), texts['test']):.4f} bits a byte")


if __name__ == "__main__":
    main()
