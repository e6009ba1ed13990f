"""How the models of transformers compute attention: fused, or by plain products, which every exporter can translate."""

from __future__ import annotations

from typing import Any

from bench.onnxfile.deferred import torch

_EAGER = "eager"
SETTING = f'attn_implementation="{_EAGER}"'


def use_eager(model: torch.nn.Module) -> list[str]:
    """Have all models of transformers in a module compute attention by plain products, as far as their classes can.

    Returns:
        The implementations that they had, such as `sdpa`; empty where nothing was changed.
    """
    replaced: dict[str, None] = {}
    for part in model.modules():
        config: Any = getattr(part, "config", None)
        before = getattr(config, "_attn_implementation", None)
        # A class that knows no other way than its own has no such method, or refuses.
        if before in (None, _EAGER) or not hasattr(part, "set_attn_implementation"):
            continue
        try:
            part.set_attn_implementation(_EAGER)
        except ValueError:
            continue
        if config._attn_implementation == _EAGER:
            replaced[before] = None
    return list(replaced)
