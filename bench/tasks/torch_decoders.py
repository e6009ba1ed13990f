"""What an engine must know of a model of transformers to generate with it, learned by running it once with a cache."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from transformers import DynamicCache

from bench.tasks.transformers_inputs import most_positions

KEEP = "logits_to_keep"
"""Name of the argument that says of how many tokens, the last ones, logits are wanted."""
USUAL_POSITIONS = 2048
"""Of a model whose configuration tells no most."""
EXAMPLE_TOKENS = 3


def facts(model: Any) -> dict[str, int] | str:
    """The fields of a `bench.api.decoder.Decoder` of a model, or the reason why it is none that generates here.

    Args:
        model: a model of transformers with its weights.
    """
    config = model.config.get_text_config()
    if getattr(model.config, "is_encoder_decoder", False):
        return "it has an encoder"
    if KEEP not in inspect.signature(model.forward).parameters:
        return f"its class takes no {KEEP}"
    ids = torch.ones((1, EXAMPLE_TOKENS), dtype=torch.int64)
    cache = DynamicCache()
    with torch.inference_mode():
        logits = model(input_ids=ids, past_key_values=cache, use_cache=True, **{KEEP: 1}).logits
    shapes = {tuple(tensor.shape) for layer in cache.layers for tensor in _kept(layer)}
    if len(shapes) != 1 or len(cache.layers) * 2 != sum(len(_kept(layer)) for layer in cache.layers):
        return "its layers do not all keep the same keys and values of every token"
    _, num_groups, num_tokens, head_size = shapes.pop()
    if num_tokens != EXAMPLE_TOKENS:
        return "its layers do not keep the keys and values of every token"
    found = {
        "num_layers": len(cache.layers),
        "num_heads": int(config.num_attention_heads),
        "num_groups": num_groups,
        "head_size": head_size,
        "vocabulary": int(logits.shape[-1]),
        "max_positions": min(most_positions(model.config) or USUAL_POSITIONS, _window(config)),
        "weights_read": _weights_read(model),
    }
    ends = {"pad_id": getattr(config, "pad_token_id", None), "end_id": getattr(config, "eos_token_id", None)}
    if ends["pad_id"] == ends["end_id"]:
        ends["pad_id"] = None
    return {**found, **{name: token for name, token in ends.items() if isinstance(token, int) and token >= 0}}


def _window(config: Any) -> int:
    """Tokens that every layer looks back over: beyond, some see less than all tokens, which is not measured here."""
    window = getattr(config, "sliding_window", None)
    return window if isinstance(window, int) and getattr(config, "use_sliding_window", True) else USUAL_POSITIONS**2


def _kept(layer: Any) -> list[torch.Tensor]:
    found = (getattr(layer, "keys", None), getattr(layer, "values", None))
    return [tensor for tensor in found if isinstance(tensor, torch.Tensor)]


def _weights_read(model: Any) -> int:
    """Every weight but a table of tokens that is no head as well: of such a table a step reads a row."""
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    total = sum(weight.numel() for weight in model.parameters())
    is_tied = head is not None and head.weight is table.weight
    return int(total if is_tied else total - table.weight.numel() + table.weight.shape[1])
