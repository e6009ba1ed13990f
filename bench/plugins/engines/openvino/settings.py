"""Properties that models are compiled with for a provider: a stated precision, since the default may reduce it."""

from __future__ import annotations

from typing import Any

PRECISIONS = {"cpu": "f32", "cpu-bf16": "bf16"}
"""OpenVINO's name of the precision to compile for, by provider. By default OpenVINO takes bfloat16 where the processor
has it, and float16 on Arm."""
CACHES = {"cpu": ("f32", 4), "cpu-bf16": ("bf16", 2)}
"""OpenVINO's precision of keys and values that are kept, and its bytes, by provider: by default it takes 8 bits."""


def settings(provider: str, threads: int) -> dict[str, Any]:
    """Properties by name.

    Args:
        provider: a key of `PRECISIONS`.
        threads: threads of an inference.
    """
    return {"INFERENCE_PRECISION_HINT": PRECISIONS[provider], "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}


def of_generation(provider: str, threads: int) -> dict[str, Any]:
    """Properties by name of a model that keeps a cache as its state, likewise."""
    return {**settings(provider, threads), "KV_CACHE_PRECISION": CACHES[provider][0]}
