"""A decoder of a language model: its cache of keys and values, and the model of one pass that takes and gives it.

Shapes: G key and value heads, D tokens in the cache, T tokens of the pass, K size of a head, V vocabulary.
"""

from __future__ import annotations

import dataclasses

from bench.api.tensors import TensorSpec

IDS, LOGITS = "input_ids", "logits"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decoder:
    """What an engine must know of a decoder to generate with it.

    Attributes:
        num_layers: layers, each with a cache of its own.
        num_heads: heads of queries.
        num_groups: heads of keys and values.
        head_size: size of a head.
        vocabulary: number of token ids.
        max_positions: most tokens of a prompt and its answer together.
        weights_read: weights that a decode step reads at least: every one once, and of a table the rows of its tokens.
        pad_id: id of the padding, or None.
        end_id: id that ends a text, or None: a forced length goes on after it.
    """

    num_layers: int
    num_heads: int
    num_groups: int
    head_size: int
    vocabulary: int
    max_positions: int
    weights_read: int
    pad_id: int | None = None
    end_id: int | None = None

    @property
    def cache_per_token(self) -> int:
        """Elements of keys and values that a token adds to the cache."""
        return 2 * self.num_layers * self.num_groups * self.head_size

    def caches(self, prefix: str, dim: str) -> tuple[TensorSpec, ...]:
        """The tensors of a cache: of each layer its keys and its values, float32 (1, G, `dim`, K)."""
        return tuple(
            TensorSpec(
                name=f"{prefix}.{layer}.{part}", dtype="float32", shape=(1, self.num_groups, dim, self.head_size)
            )
            for layer in range(self.num_layers)
            for part in ("key", "value")
        )

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Of one pass: ids of the tokens that are new, int64 (1, T), and the cache before it (1, G, D, K)."""
        return (TensorSpec(name=IDS, dtype="int64", shape=(1, "tokens")), *self.caches("past_key_values", "past"))

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Of one pass: logits of what follows the last token, float32 (1, 1, V), and the cache after it."""
        logits = TensorSpec(name=LOGITS, dtype="float32", shape=(1, 1, self.vocabulary))
        return (logits, *self.caches("present", "total"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """A request to generate, the same for every engine: one prompt of so many ids, and so many new tokens.

    Attributes:
        decoder: the decoder.
        num_prompt: tokens of the prompt, which are the tokens in the cache before the first decode step (KV depth).
        num_new: tokens to generate; the prefill gives the first of them.
        num_scored: tokens after the prompt whose logits are compared with the reference's.
        num_greedy: tokens that are generated to be compared with the reference's.
    """

    decoder: Decoder
    num_prompt: int
    num_new: int
    num_scored: int
    num_greedy: int

    @property
    def depth(self) -> int:
        """Tokens in the cache before the pass that is timed: the prefill, or else the first decode step."""
        return 0 if self.num_new == 1 else self.num_prompt

    def pass_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs of the pass that is timed, by their names in `Decoder.inputs`."""
        sizes = {"tokens": self.num_prompt if self.num_new == 1 else 1, "past": self.depth}
        return {
            spec.name: tuple(size if isinstance(size, int) else sizes[size] for size in spec.shape)
            for spec in self.decoder.inputs
        }

    @property
    def longest(self) -> int:
        """Most tokens of a text that an engine meets."""
        return self.num_prompt + max(self.num_new, self.num_scored, self.num_greedy)
