"""What a pass of a language model costs at least, and how long it takes at least on a machine.

A prefill takes all tokens of the prompt at once; a decode step takes one token, after which `depth` tokens are in the
cache of keys and values (KV cache). Source of the bounds: Williams, Waterman and Patterson, "Roofline", 2009; of
their use for generation: Pope et al., "Efficiently Scaling Transformer Inference", MLSys 2023.
"""

from __future__ import annotations

import dataclasses

from bench.measure.roofline import Peaks

WEIGHT_BITS = {"float32": 32.0, "bfloat16": 16.0, "float16": 16.0, "int8": 8.5, "int4": 4.5}
"""Bits of a weight that is stored so; of integers with a scale of 16 bits for each block of 32 weights."""
_LEAST_BITS = {**WEIGHT_BITS, "int8": 8.0, "int4": 4.0}
"""Bits of a weight at least: a scale may be that of a whole row."""
CACHE_BYTES = {"float32": 4}
"""Bytes of an element of the KV cache beside such weights: 2 beside all others."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pass:
    """What one pass over a model's weights computes and reads, in elements, whatever their type.

    Attributes:
        num_tokens: tokens of each sequence that it takes.
        depth: tokens of each sequence that are in the KV cache before it.
        matrix_macs: MACs of the products with weights.
        attention_macs: MACs of attention: queries with the keys that each may see, and weights with values.
        weights_read: weights that it reads at least: every one once, and of a table the rows of its tokens.
        cache_read: elements of keys and values, its own among them, that attention reads at least.
        cache_kept: elements of keys and values in the cache after it.
    """

    num_tokens: int
    depth: int
    matrix_macs: int
    attention_macs: int
    weights_read: int
    cache_read: int
    cache_kept: int

    @property
    def macs(self) -> int:
        return self.matrix_macs + self.attention_macs

    def num_bytes(self, stored: str) -> float:
        """Bytes of weights and cache that the pass reads at least, with weights stored as a key of `WEIGHT_BITS`."""
        return self.weights_read * WEIGHT_BITS[stored] / 8 + self.cache_read * CACHE_BYTES.get(stored, 2)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bound:
    """The least time of a pass on a machine.

    Attributes:
        compute_s: seconds that its MACs take at the machine's peak.
        memory_s: seconds that its bytes take at the machine's peak.
    """

    compute_s: float
    memory_s: float

    @property
    def seconds(self) -> float:
        return max(self.compute_s, self.memory_s)

    @property
    def by(self) -> str:
        """Which of the two limits it: `compute` or `memory`."""
        return "compute" if self.compute_s >= self.memory_s else "memory"


def bound(cost: Pass, stored: str, peaks: Peaks, bytes_per_s: float) -> Bound:
    """The least time of a pass.

    Args:
        cost: the pass.
        stored: how weights are stored, a key of `WEIGHT_BITS`.
        peaks: of the machine.
        bytes_per_s: how fast the machine reads a buffer as large as weights and cache.
    """
    return Bound(compute_s=cost.macs / peak_rate(peaks, stored), memory_s=cost.num_bytes(stored) / bytes_per_s)


def peak_rate(peaks: Peaks, stored: str) -> float:
    """The most MACs in a second, in any precision that products with weights that are stored so may be computed in.

    Weights in floats are computed with in their own precision or in float32, and integers in any.
    """
    floats = {"float32": ("float32",), "bfloat16": ("float32", "bfloat16"), "float16": ("float32", "float16")}
    return max(rate for name, rate in peaks.macs_per_s.items() if name in floats.get(stored, peaks.macs_per_s))


def least_weight_bytes(
    weights_read: int, precision: str | None, file_bytes: int | None, stored_bytes: int | None
) -> int:
    """Bytes of weights that a pass reads at least.

    Args:
        weights_read: weights that it reads.
        precision: of the computation; None where it is not known.
        file_bytes: bytes of the file, of which a pass may leave out tables that it looks rows up in; None where the
            engine makes other weights of it when it loads it.
        stored_bytes: bytes of the weights but for such tables, as they are stored, where the engine computes with them
            as they are; None where they are not known apart.
    """
    if stored_bytes is not None:  # a table that is the head, too, may be stored twice
        return min(stored_bytes, weights_read * 4)
    least = int(weights_read * _LEAST_BITS.get(precision or "", _LEAST_BITS["int4"]) / 8)
    return least if file_bytes is None else min(file_bytes, least)
