"""Llamas of transformers, as exporters to the formats of other engines read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bench.api import Task
from bench.api.names import Role

CONFIG = "config.json"
ARCHITECTURE = "llama"


def config(task: Task) -> dict[str, Any]:
    """The configuration in a task's folder; empty without a file."""
    path = task.folder / CONFIG
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def rope(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of the rotary embedding, which transformers keeps in one of two places."""
    return config.get("rope_parameters") or config


def refusal(task: Task) -> str | None:
    """The reason why a task's model is no Llama that other engines compute as transformers does; None if it is."""
    if task.role not in (Role.GENERATION, Role.DECODING_STEP):
        return "it writes decoders that generate text"
    stored = config(task)
    if stored.get("model_type") != ARCHITECTURE:
        return f"it writes Llamas of transformers, not {stored.get('model_type', 'a model without a config.json')}"
    kind = (stored.get("rope_scaling") or rope(stored)).get("rope_type", "default")
    if kind != "default" or stored.get("attention_bias") or stored.get("mlp_bias"):
        return f"it writes Llamas without biases and with plain rotary embeddings, not those of the kind {kind!r}"
    return None
