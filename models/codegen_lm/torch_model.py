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

from bench.plugins.engines.pytorch.steps import Step

CONFIG = Path(__file__).with_name("config.json")
LATER = torch.finfo(torch.float32).min
"""Added to the score of a later position: nothing of it is left after the softmax."""


class Decoder(LlamaForCausalLM):
    """Token ids, int64 (N, T), without padding -> the logits of what follows each of them, float32 (N, T, V)."""

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        # The mask is made here: that of transformers looks for several texts in a row, which not every exporter takes.
        positions_T = torch.arange(input_ids.shape[1], device=input_ids.device)
        is_later_TT = positions_T[None, :] > positions_T[:, None]
        mask_11TT = (is_later_TT.float() * LATER)[None, None]
        return (
            super()
            .forward(input_ids=input_ids, attention_mask=mask_11TT, position_ids=positions_T[None], use_cache=False)
            .logits
        )


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
    model.config._attn_implementation = "eager"  # the fused one is exported with a guard against rows of padding
    return model.eval()


def build_step(weights: Path, config: Path = CONFIG) -> nn.Module:
    """One pass of the trained network in float32: see `bench.plugins.engines.pytorch.steps.Step`."""
    return Step(build(weights, config), LlamaForCausalLM.forward)
