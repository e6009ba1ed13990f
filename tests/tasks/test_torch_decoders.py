"""Which models of transformers generate here: those whose passes with a cache give the logits of one whole pass."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from support import deferred

pytestmark = pytest.mark.framework("torch")
torch = deferred.importorskip("torch")
transformers = deferred.importorskip("transformers")
torch_decoders = deferred.importorskip("bench.tasks.torch_decoders")

GATED = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128,
}  # fmt: skip
PLAIN = {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
GPT2 = {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}


def model_of(kind: str, **settings: Any) -> Any:
    """A model with weights large enough that what a layer leaves out is seen in the logits."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(transformers.CONFIG_MAPPING[kind](**settings)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(8)
    return model


@pytest.mark.parametrize(
    ("kind", "settings", "groups", "positions"),
    [
        ("llama", GATED, 2, 128),
        ("qwen3", {**GATED, "head_dim": 8}, 2, 128),
        ("mistral", {**GATED, "sliding_window": 16}, 2, 16),
        ("gemma", {**GATED, "head_dim": 8}, 2, 128),
        # The cap is far below the scores, so attention without it gives other logits.
        ("gemma2", {**GATED, "head_dim": 8, "attn_logit_softcapping": 0.01, "sliding_window": 16}, 2, 16),
        ("phi", GATED, 2, 128),
        ("gpt2", GPT2, 4, 128),
    ],
)
def test_decoders_that_generate(kind: str, settings: dict[str, Any], groups: int, positions: int) -> None:
    model = model_of(kind, **settings)
    before = model.config._attn_implementation

    found = torch_decoders.facts(model)

    assert not isinstance(found, str), found
    assert {name: found[name] for name in ("num_layers", "num_heads", "num_groups", "head_size", "vocabulary")} == {
        "num_layers": 2,
        "num_heads": 4,
        "num_groups": groups,
        "head_size": 8,
        "vocabulary": 96,
    }
    assert found["max_positions"] == positions
    assert model.config._attn_implementation == before


@pytest.mark.parametrize(
    ("kind", "settings", "reason"),
    [
        ("mamba", {**PLAIN, "state_size": 8}, "its layers do not all keep the same keys and values of every token"),
        # Its own bias of distances takes a mask of texts, not of pairs of tokens.
        ("bloom", {"vocab_size": 96, "hidden_size": 32, "n_layer": 2, "n_head": 4}, "it does not run with a cache (V"),
        # Its local layers count keys from the end of the cache, and the end of a static cache is empty.
        (
            "gpt_neo",
            {**GATED, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 4},
            "its passes with a static cache differ from one pass over all tokens (",
        ),
        ("gpt_oss", {**GATED, "head_dim": 8, "num_local_experts": 4}, "a token does not use each of its matrices once"),
        ("deepseek_v3", {**GATED, "num_key_value_heads": 4, "first_k_dense_replace": 2}, "its layers do not all keep"),
    ],
)
def test_decoders_that_do_not(kind: str, settings: dict[str, Any], reason: str) -> None:
    found = torch_decoders.facts(model_of(kind, **settings))

    assert isinstance(found, str)
    assert found.startswith(reason)


def test_a_model_whose_passes_with_a_growing_cache_differ_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("llama", **GATED)
    forward = type(model).forward

    def shifted(self: Any, input_ids: Any, position_ids: Any = None, **given: Any) -> Any:
        if position_ids is not None and not isinstance(given["past_key_values"], transformers.StaticCache):
            position_ids = position_ids + (position_ids > 6)
        return forward(self, input_ids, position_ids=position_ids, **given)

    shifted.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    monkeypatch.setattr(type(model), "forward", shifted)

    found = torch_decoders.facts(model)

    assert isinstance(found, str)
    assert found.startswith("its passes with a growing cache differ from one pass over all tokens (")
