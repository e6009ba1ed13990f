"""The decoder in Keras, with the weights, the inputs and the outputs of the PyTorch network.

Every layer has the name of its tensor in transformers.

Shapes: N batch, T tokens, D hidden size, F feed-forward size, H query heads, G key and value heads, R query heads for
each of those, K size of a head, V vocabulary, S tokens that are looked at; weights are O outputs, I inputs.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import keras
import numpy as np
from keras import layers, ops
from safetensors.numpy import load_file

CONFIG = Path(__file__).with_name("config.json")
LATER = float(np.finfo(np.float32).min)
"""Added to the score of a later position: nothing of it is left after the softmax."""
Extend: TypeAlias = "Callable[[int, Any, Any], Any]"
"""Takes the number of a block with the keys and the values, (N, G, T, K), of a pass, and gives those that are looked
at, (N, G, S, K)."""


class Block:
    """The layers of one block of the decoder."""

    def __init__(self, config: Mapping[str, Any], number: int) -> None:
        hidden, inner, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
        heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
        name = f"model.layers.{number}"

        def dense(units: int, part: str) -> layers.Dense:
            return layers.Dense(units, use_bias=False, name=f"{name}.{part}")

        def normalization(part: str) -> layers.RMSNormalization:
            return layers.RMSNormalization(epsilon=config["rms_norm_eps"], name=f"{name}.{part}")

        self.normalize_attention = normalization("input_layernorm")
        self.query = dense(heads * size, "self_attn.q_proj")
        self.key = dense(groups * size, "self_attn.k_proj")
        self.value = dense(groups * size, "self_attn.v_proj")
        self.mix = dense(hidden, "self_attn.o_proj")
        self.normalize_feed = normalization("post_attention_layernorm")
        self.gate = dense(inner, "mlp.gate_proj")
        self.up = dense(inner, "mlp.up_proj")
        self.down = dense(hidden, "mlp.down_proj")


class Decoder(keras.Model):
    """Token ids, int64 (N, T), without padding, to the logits of what follows each of them, float32 (N, T, V)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(name="codegen_lm")
        assert config["hidden_act"] == "silu"
        assert config["tie_word_embeddings"]
        self.num_heads, self.num_groups = config["num_attention_heads"], config["num_key_value_heads"]
        self.head_size = config["head_dim"]
        self.words = layers.Embedding(config["vocab_size"], config["hidden_size"], name="model.embed_tokens")
        self.blocks = [Block(config, number) for number in range(config["num_hidden_layers"])]
        self.parts = [layer for block in self.blocks for layer in vars(block).values()]  # as Keras tracks layers
        self.normalize = layers.RMSNormalization(epsilon=config["rms_norm_eps"], name="model.norm")
        exponents_K = np.arange(0, self.head_size, 2, dtype=np.float32) / self.head_size
        self.frequency_K = (1.0 / config["rope_theta"] ** exponents_K).astype(np.float32)

    def call(self, input_ids: Any) -> Any:
        """See the class."""
        positions_T = ops.cast(ops.arange(ops.shape(input_ids)[1]), "float32")
        x_NTD = self.features(input_ids, positions_T, positions_T, lambda _, *own: own)
        return self.logits(x_NTD)

    def features(self, input_ids: Any, positions_T: Any, positions_S: Any, extend: Extend) -> Any:
        """What the network makes of each token before its logits, (N, T, D).

        Args:
            input_ids: ids of the tokens, (N, T).
            positions_T: their positions, float32.
            positions_S: positions of the tokens that are looked at, float32: a token sees none later than its own.
            extend: gives the keys and values that are looked at.
        """
        angle_TK = positions_T[:, None] * self.frequency_K[None, :]
        angle_TK = ops.concatenate([angle_TK, angle_TK], axis=1)
        rotation = ops.cos(angle_TK), ops.sin(angle_TK)
        is_later_TS = positions_S[None, :] > positions_T[:, None]
        mask_TS = ops.cast(is_later_TS, "float32") * LATER
        x_NTD = self.words(input_ids)
        for number, block in enumerate(self.blocks):
            own = functools.partial(extend, number)
            x_NTD = x_NTD + self._attend(block, block.normalize_attention(x_NTD), rotation, mask_TS, own)
            y_NTD = block.normalize_feed(x_NTD)
            gate_NTF = block.gate(y_NTD)
            x_NTD = x_NTD + block.down(gate_NTF * ops.sigmoid(gate_NTF) * block.up(y_NTD))
        return x_NTD

    def logits(self, x_NTD: Any) -> Any:
        """Logits of what follows each token, (N, T, V)."""
        return ops.matmul(self.normalize(x_NTD), ops.transpose(self.words.embeddings))

    def _attend(
        self, block: Block, x_NTD: Any, rotation: tuple[Any, Any], mask_TS: Any, extend: Callable[[Any, Any], Any]
    ) -> Any:
        num_tokens, size, per_group = ops.shape(x_NTD)[1], self.head_size, self.num_heads // self.num_groups

        def heads(y_NTD: Any, number: int) -> Any:
            return ops.transpose(ops.reshape(y_NTD, (-1, num_tokens, number, size)), (0, 2, 1, 3))

        query_NHTK = _rotate(heads(block.query(x_NTD), self.num_heads), rotation)
        key_NGTK = _rotate(heads(block.key(x_NTD), self.num_groups), rotation)
        key_NGSK, value_NGSK = extend(key_NGTK, heads(block.value(x_NTD), self.num_groups))
        query_NGRTK = ops.reshape(query_NHTK, (-1, self.num_groups, per_group, num_tokens, size))
        key_NG1KS = ops.swapaxes(key_NGSK, 2, 3)[:, :, None]
        scores_NGRTS = ops.matmul(query_NGRTK, key_NG1KS) * size**-0.5 + mask_TS
        mixed_NGRTK = ops.matmul(ops.softmax(scores_NGRTS), value_NGSK[:, :, None])
        mixed_NHTK = ops.reshape(mixed_NGRTK, (-1, self.num_heads, num_tokens, size))
        return block.mix(ops.reshape(ops.transpose(mixed_NHTK, (0, 2, 1, 3)), (-1, num_tokens, self.num_heads * size)))


class Step(keras.Model):
    """One pass: ids, int64 (1, T), and each layer's keys and values, float32 (1, G, D, K), to logits and the cache.

    The logits, float32 (1, 1, V), are of what follows the last token; the cache is then of D + T tokens.
    """

    def __init__(self, decoder: Decoder) -> None:
        super().__init__(name="codegen_lm_step")
        self.decoder = decoder

    def call(self, input_ids: Any, *past: Any) -> list[Any]:
        """See the class."""
        depth = ops.shape(past[0])[2]
        positions_S = ops.cast(ops.arange(depth + ops.shape(input_ids)[1]), "float32")
        present = []

        def extend(number: int, *own: Any) -> Any:
            before = past[2 * number : 2 * number + 2]
            extended = [ops.concatenate(parts, axis=2) for parts in zip(before, own, strict=True)]
            present.extend(extended)
            return extended

        x_1TD = self.decoder.features(input_ids, positions_S[depth:], positions_S, extend)
        return [self.decoder.logits(x_1TD[:, -1:]), *present]

    def placed(self, input_ids: Any, position: Any, *caches: Any) -> list[Any]:
        """The same pass with caches that have room for S tokens, (1, G, S, K), and are given back with it in its place.

        Args:
            input_ids: as for `call`.
            position: tokens before the pass, int32 ().
            caches: each layer's keys and values; what is behind the pass counts for nothing.
        """
        positions_S = ops.cast(ops.arange(ops.shape(caches[0])[2]), "float32")
        positions_T = ops.cast(position + ops.arange(ops.shape(input_ids)[1], dtype="int32"), "float32")
        present = []

        def extend(number: int, *own: Any) -> Any:
            before = caches[2 * number : 2 * number + 2]
            place = (0, 0, position, 0)
            extended = [ops.slice_update(cache, place, part) for cache, part in zip(before, own, strict=True)]
            present.extend(extended)
            return extended

        x_1TD = self.decoder.features(input_ids, positions_T, positions_S, extend)
        return [self.decoder.logits(x_1TD[:, -1:]), *present]


def _rotate(x_NHTK: Any, rotation: tuple[Any, Any]) -> Any:
    """Rotary position embedding, of which the halves of a head are the two axes.

    Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
    """
    cos_TK, sin_TK = rotation
    first, second = ops.split(x_NHTK, 2, axis=-1)
    return x_NHTK * cos_TK + ops.concatenate([-second, first], axis=-1) * sin_TK


def network(config: Path = CONFIG) -> Decoder:
    """The untrained network.

    Args:
        config: transformers' `config.json` of the model.
    """
    model = Decoder(json.loads(config.read_text()))
    model(np.ones((1, 2), np.int64))  # layers make their weights when they are first called
    return model


def build(weights: Path, config: Path = CONFIG) -> Decoder:
    """The trained network in float32, from the safetensors file of the PyTorch one."""
    model = network(config)
    tensors = {name: tensor.astype(np.float32) for name, tensor in load_file(weights).items()}
    for layer in [model.words, *model.parts, model.normalize]:
        weight = tensors.pop(f"{layer.name}.weight")
        layer.set_weights([weight.T if isinstance(layer, layers.Dense) else weight])
    assert not tensors, f"{weights} holds what the network does not have: {', '.join(tensors)}"
    return model


def build_step(weights: Path, config: Path = CONFIG) -> Step:
    """One pass of the trained network in float32."""
    return Step(build(weights, config))
