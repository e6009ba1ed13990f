"""The decoder in PyTorch: transformers' own Llama, with the plain tensors that a deployment has.

Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023, with grouped-query attention
(Ainslie et al., "GQA", EMNLP 2023); the network is that of `transformers.models.llama`.

Shapes: N batch, T tokens, V vocabulary.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

CONFIG = Path(__file__).with_name("config.json")


class Decoder(LlamaForCausalLM):
    """Token ids, int64 (N, T), without padding -> the logits of what follows each of them, float32 (N, T, V)."""

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return super().forward(input_ids=input_ids, use_cache=False).logits


def network(config: Path = CONFIG) -> nn.Module:
    """The untrained network, its parameters named as in transformers.

    Args:
        config: transformers' `config.json` of the model.
    """
    return Decoder(LlamaConfig.from_json_file(config)).float()


def build(weights: Path, config: Path = CONFIG) -> nn.Module:
    """The trained network in float32, in inference mode, from a safetensors file of bfloat16.

    A value in bfloat16 is one in float32 as well, so nothing is rounded.
    """
    model = network(config)
    tensors = {name: tensor.float() for name, tensor in load_file(weights).items()}
    missing, unknown = model.load_state_dict(tensors, strict=False)
    assert (missing, unknown) == (["lm_head.weight"], []), f"{weights} is of another network: {missing}, {unknown}"
    model.tie_weights()
    return model.eval()
