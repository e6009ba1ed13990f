"""ALBERT in PyTorch: transformers' own classes, with the two inputs and the plain tensors that a deployment has.

Source: Lan et al., "ALBERT: A Lite BERT for Self-supervised Learning of Language Representations", ICLR 2020; the
network is that of `transformers.models.albert`.

Shapes: N batch, T tokens, D hidden size, L labels.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import AlbertConfig, AlbertForSequenceClassification, AlbertModel

CONFIG = Path(__file__).with_name("config.json")


class Classifier(AlbertForSequenceClassification):
    """Token ids and their mask, both int64 (N, T), 1 in the mask for a token and 0 for padding -> logits (N, L)."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return super().forward(input_ids=input_ids, attention_mask=attention_mask).logits


class Encoder(AlbertModel):
    """The same inputs -> every token's last hidden state (N, T, D) and the pooled output (N, D)."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = super().forward(input_ids=input_ids, attention_mask=attention_mask)
        return outputs.last_hidden_state, outputs.pooler_output


ARCHITECTURES = {"AlbertForSequenceClassification": Classifier, "AlbertModel": Encoder}


def network(config: Path = CONFIG) -> nn.Module:
    """The untrained network, its parameters named as in transformers.

    Args:
        config: transformers' `config.json` of the model; its one `architectures` says whether it classifies.
    """
    settings = AlbertConfig.from_json_file(config)
    (architecture,) = settings.architectures
    model = ARCHITECTURES[architecture](settings)
    # As fast as the fused attention on a CPU, and exported without its guard against rows of padding in every layer.
    model.set_attn_implementation("eager")
    return model


def build(weights: Path, config: Path = CONFIG) -> nn.Module:
    """The trained network, in inference mode, from a safetensors file."""
    model = network(config)
    model.load_state_dict(load_file(weights))
    return model.eval()
