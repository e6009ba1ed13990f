"""One pass of a decoder of transformers, with the cache of keys and values as plain tensors in and out.

Shapes: G key and value heads, D tokens in the cache, T tokens of the pass, K size of a head, V vocabulary, S tokens for
which a static cache has room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import Cache, StaticCache
from transformers.cache_utils import DynamicLayer


class Kept(DynamicLayer):
    """The cache of one layer that has tokens from the start: transformers' own begins with a join that is not traced.

    Args:
        keys: float32 (1, G, D, K).
        values: likewise.
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.dtype, self.device = keys.dtype, keys.device
        self.keys, self.values = keys, values
        self.is_initialized = True


class Step(nn.Module):
    """Ids, int64 (1, T), and each layer's keys and values, float32 (1, G, D, K) -> logits (1, 1, V), and the cache.

    Args:
        model: a model of transformers, with eager attention.
        forward: the method of its class that runs it, where the model's own is another.
    """

    def __init__(self, model: nn.Module, forward: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.model = model
        self._forward_of = forward or type(model).forward

    def forward(self, input_ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        depth, num_tokens = past[0].shape[2], input_ids.shape[1]
        pairs = zip(past[::2], past[1::2], strict=True)
        cache = Cache(layers=[Kept(keys, values) for keys, values in pairs])
        total = depth + num_tokens
        positions_T = torch.arange(total, device=input_ids.device)[depth:]
        is_later_TS = torch.arange(total, device=input_ids.device)[None, :] > positions_T[:, None]
        mask = (is_later_TS.to(past[0].dtype) * torch.finfo(past[0].dtype).min)[None, None]
        logits = self._forward_of(
            self.model,
            input_ids=input_ids,
            attention_mask=mask,
            position_ids=positions_T[None],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits
        present = [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]
        return (logits, *present)


class StaticStep(nn.Module):
    """Ids, int64 (1, T), and the position of the first of them, int64 (1,) -> logits (1, 1, V): the cache is kept.

    The cache is transformers' `StaticCache`, which lies in place from the start, for S tokens.

    Args:
        step: a pass of the decoder.
        num_tokens: S.
    """

    def __init__(self, step: Step, num_tokens: int) -> None:
        super().__init__()
        self.model, self._forward_of = step.model, step._forward_of
        self.cache = StaticCache(config=step.model.config, max_cache_len=num_tokens)
        self.register_buffer("places_S", torch.arange(num_tokens), persistent=False)

    def forward(self, input_ids: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        positions_T = position + self.places_S[: input_ids.shape[1]]
        is_later_TS = self.places_S[None, :] > positions_T[:, None]
        kind = self.cache.layers[0].keys.dtype
        mask = (is_later_TS.to(kind) * torch.finfo(kind).min)[None, None]
        logits: torch.Tensor = self._forward_of(
            self.model,
            input_ids=input_ids,
            attention_mask=mask,
            position_ids=positions_T[None],
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits
        return logits
