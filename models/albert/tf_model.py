"""ALBERT in Keras, with the weights, the inputs and the outputs of the PyTorch network.

transformers 5 has no TensorFlow models. Every layer here has the name of its tensors in transformers; the layers of the
transformer are one, called as often as the configuration says, so its weights are there once.

Shapes: N batch, T tokens, E embedding size, D hidden size, F feed-forward size, H heads, K size of a head, L labels;
weights are O outputs, I inputs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers, ops
from safetensors.numpy import load_file

CONFIG = Path(__file__).with_name("config.json")
SHARED = "encoder.albert_layer_groups.0.albert_layers.0"
WITHOUT = float(np.finfo(np.float32).min)
"""Added to the score of a padded position: nothing of it is left after the softmax."""


class Albert(keras.Model):
    """Token ids and their mask, both int64 (N, T), 1 in the mask for a token and 0 for padding, to what is asked for.

    That is logits (N, L), or every token's last hidden state (N, T, D) and the pooled output (N, D), by the one name
    in the configuration's `architectures`.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(name="albert")
        assert config["hidden_act"] == "gelu_new"
        assert config["num_hidden_groups"] == config["inner_group_num"] == 1  # or there would be more than one layer
        self.num_layers = config["num_hidden_layers"]
        self.num_heads = config["num_attention_heads"]
        embedding, hidden, inner = (config[f"{part}_size"] for part in ("embedding", "hidden", "intermediate"))

        def normalization(name: str) -> layers.LayerNormalization:
            return layers.LayerNormalization(epsilon=config["layer_norm_eps"], name=name)

        self.words = layers.Embedding(config["vocab_size"], embedding, name="embeddings.word_embeddings")
        self.positions = layers.Embedding(
            config["max_position_embeddings"], embedding, name="embeddings.position_embeddings"
        )
        self.types = layers.Embedding(config["type_vocab_size"], embedding, name="embeddings.token_type_embeddings")
        self.normalize_embeddings = normalization("embeddings.LayerNorm")
        self.widen = layers.Dense(hidden, name="encoder.embedding_hidden_mapping_in")
        self.query = layers.Dense(hidden, name=f"{SHARED}.attention.query")
        self.key = layers.Dense(hidden, name=f"{SHARED}.attention.key")
        self.value = layers.Dense(hidden, name=f"{SHARED}.attention.value")
        self.mix = layers.Dense(hidden, name=f"{SHARED}.attention.dense")
        self.normalize_attention = normalization(f"{SHARED}.attention.LayerNorm")
        self.feed = layers.Dense(inner, name=f"{SHARED}.ffn")
        self.feed_output = layers.Dense(hidden, name=f"{SHARED}.ffn_output")
        self.normalize = normalization(f"{SHARED}.full_layer_layer_norm")
        self.pool = layers.Dense(hidden, activation="tanh", name="pooler")
        self.classify = None
        if config["architectures"] == ["AlbertForSequenceClassification"]:
            self.classify = layers.Dense(len(config["id2label"]), name="classifier")

    def call(self, input_ids: Any, attention_mask: Any) -> Any:
        """See the class."""
        positions_T = ops.arange(ops.shape(input_ids)[1])
        x_NTE = self.words(input_ids) + self.types(ops.zeros_like(input_ids)) + self.positions(positions_T)
        x_NTD = self.widen(self.normalize_embeddings(x_NTE))
        mask_NT = (1 - ops.cast(attention_mask, x_NTD.dtype)) * WITHOUT
        for _ in range(self.num_layers):
            x_NTD = self.normalize_attention(x_NTD + self._attend(x_NTD, mask_NT[:, None, None, :]))
            x_NTF = keras.activations.gelu(self.feed(x_NTD), approximate=True)
            x_NTD = self.normalize(self.feed_output(x_NTF) + x_NTD)
        pooled_ND = self.pool(x_NTD[:, 0])
        return (x_NTD, pooled_ND) if self.classify is None else self.classify(pooled_ND)

    def _attend(self, x_NTD: Any, mask_N11T: Any) -> Any:
        num_tokens, hidden = ops.shape(x_NTD)[1], x_NTD.shape[-1]

        def heads(y_NTD: Any) -> Any:
            y_NTHK = ops.reshape(y_NTD, (-1, num_tokens, self.num_heads, hidden // self.num_heads))
            return ops.transpose(y_NTHK, (0, 2, 1, 3))

        query_NHTK, key_NHTK, value_NHTK = heads(self.query(x_NTD)), heads(self.key(x_NTD)), heads(self.value(x_NTD))
        scores_NHTT = ops.matmul(query_NHTK, ops.swapaxes(key_NHTK, 2, 3)) * (hidden / self.num_heads) ** -0.5
        mixed_NHTK = ops.matmul(ops.softmax(scores_NHTT + mask_N11T), value_NHTK)
        return self.mix(ops.reshape(ops.transpose(mixed_NHTK, (0, 2, 1, 3)), (-1, num_tokens, hidden)))


def network(config: Path = CONFIG) -> Albert:
    """The untrained network.

    Args:
        config: transformers' `config.json` of the model.
    """
    model = Albert(json.loads(config.read_text()))
    tokens_NT = np.ones((1, 2), np.int64)
    model(tokens_NT, tokens_NT)  # layers make their weights when they are first called
    return model


def build(weights: Path, config: Path = CONFIG) -> Albert:
    """The trained network, from the safetensors file of the PyTorch one."""
    model = network(config)
    # A classifier has the rest of the network under this name.
    tensors = {name.removeprefix("albert."): tensor for name, tensor in load_file(weights).items()}
    for layer in model.layers:
        weight = tensors.pop(f"{layer.name}.weight")
        if isinstance(layer, layers.Embedding):
            layer.set_weights([weight])
        else:  # of a normalization the weight has one axis
            layer.set_weights([weight.T, tensors.pop(f"{layer.name}.bias")])
    assert not tensors, f"{weights} holds what the network does not have: {', '.join(tensors)}"
    return model
