"""The weights of ALBERT-base, made up: normal numbers from a fixed seed, named as in transformers.

Embeddings and matrices have the standard deviation that the configuration would be initialized with. So have biases and
the shifts of normalizations, and their scales about 1: of zeros and ones nobody would notice that one was forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

SEED = 0
LAYER = "encoder.albert_layer_groups.0.albert_layers.0"


def make(config: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Every tensor of transformers' `AlbertModel` by name, float32.

    Args:
        config: what transformers' `config.json` of the model holds.
    """
    import numpy as np

    random = np.random.default_rng(SEED)
    deviation = np.float32(config["initializer_range"])
    tensors = {}
    for name, shape in shapes(config).items():
        mean = np.float32(len(shape) == 1 and name.endswith(".weight"))  # 1 for a normalization's scale
        tensors[name] = mean + deviation * random.standard_normal(shape, dtype=np.float32)
    return tensors


def shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes by name: of a matrix, outputs by inputs."""
    embedding, hidden, inner = (config[f"{part}_size"] for part in ("embedding", "hidden", "intermediate"))
    found: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], embedding),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], embedding),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], embedding),
    }
    with_bias = {
        "embeddings.LayerNorm": (embedding,),
        "encoder.embedding_hidden_mapping_in": (hidden, embedding),
        **{f"{LAYER}.attention.{name}": (hidden, hidden) for name in ("query", "key", "value", "dense")},
        f"{LAYER}.attention.LayerNorm": (hidden,),
        f"{LAYER}.ffn": (inner, hidden),
        f"{LAYER}.ffn_output": (hidden, inner),
        f"{LAYER}.full_layer_layer_norm": (hidden,),
        "pooler": (hidden, hidden),
    }
    for name, shape in with_bias.items():
        found |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return found
