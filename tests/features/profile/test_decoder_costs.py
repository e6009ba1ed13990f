"""Prices of decoders from their configurations, against formulas written by hand and published counts."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.api.errors import InputError
from support import deferred

pytestmark = pytest.mark.framework("torch")
deferred.importorskip("transformers")
decoder_costs = deferred.importorskip("bench.features.profile.decoder_costs")

PROMPT, DEPTH = 5000, 6000
"""Beyond the window of Mistral's and of every other layer of Gemma 2's attention, which are 4096 tokens."""


def gated(size: int, inner: int, heads: int, groups: int, head: int) -> int:
    """Weights of the matrices of a layer with grouped queries and a gated feed-forward network."""
    return size * head * (2 * heads + 2 * groups) + 3 * size * inner


# Configurations as published with the models, on each of their pages on the hub of models; what is not named is the
# default of the architecture. `layer`: weights of the matrices of a layer; `vectors`: of everything else.
MODELS: dict[str, dict[str, Any]] = {
    "Llama 3.1 8B": {
        "config": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": 128256,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 131072,
        },
        "layer": gated(4096, 14336, 32, 8, 128),
        "vectors": 65 * 4096,
        "tied": False,
        "attention": (32, 8, 128, [None] * 32),
        "published": "8.03B",
    },
    "Qwen2.5 7B": {
        "config": {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "vocab_size": 152064,
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "max_position_embeddings": 131072,
            "tie_word_embeddings": False,
        },
        "layer": gated(3584, 18944, 28, 4, 128),
        "vectors": 57 * 3584 + 28 * (3584 + 2 * 512),
        "tied": False,
        "attention": (28, 4, 128, [None] * 28),
        "published": "7.61B",
    },
    "Mistral 7B v0.1": {
        "config": {
            "architectures": ["MistralForCausalLM"],
            "model_type": "mistral",
            "vocab_size": 32000,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 32768,
            "sliding_window": 4096,
        },
        "layer": gated(4096, 14336, 32, 8, 128),
        "vectors": 65 * 4096,
        "tied": False,
        "attention": (32, 8, 128, [4096] * 32),
        "published": "7.24B",
    },
    "Gemma 2 2B": {
        "config": {
            "architectures": ["Gemma2ForCausalLM"],
            "model_type": "gemma2",
            "vocab_size": 256000,
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "max_position_embeddings": 8192,
            "sliding_window": 4096,
        },
        "layer": gated(2304, 9216, 8, 4, 256),
        "vectors": (4 * 26 + 1) * 2304,
        "tied": True,
        "attention": (8, 4, 256, [4096, None] * 13),
        "published": "2.61B",
    },
    "Phi-3 mini": {
        "config": {
            "architectures": ["Phi3ForCausalLM"],
            "model_type": "phi3",
            "vocab_size": 32064,
            "hidden_size": 3072,
            "intermediate_size": 8192,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "max_position_embeddings": 131072,
            "sliding_window": None,
        },
        "layer": gated(3072, 8192, 32, 32, 96),
        "vectors": 65 * 3072,
        "tied": False,
        "attention": (32, 32, 96, [None] * 32),
        "published": "3.8B",
    },
    "GPT-2 XL": {
        "config": {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "vocab_size": 50257,
            "n_embd": 1600,
            "n_layer": 48,
            "n_head": 25,
            "n_positions": 8192,  # published: 1024, which the prompt here exceeds
        },
        "layer": 12 * 1600**2,
        "vectors": 48 * 13 * 1600 + 2 * 1600,
        "table": 8192 * 1600,
        "beyond": (8192 - 1024) * 1600,
        "tied": True,
        "attention": (25, 25, 64, [None] * 48),
        "published": "1.558B",
    },
}


MANY = {"Llama 3.1 8B", "Gemma 2 2B", "GPT-2 XL"}
"""Models that are priced for three sequences at once: they differ in tied tables, windows and tables of positions."""


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """A limit of 2 GiB beyond what this process has: the weights would take 15 in bfloat16."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + 2 * 2**30, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """What each model costs, of as many sequences as `batch_of` says; each is priced once, with little memory."""

    @functools.cache
    def priced(name: str) -> dict[str, Any]:
        with little_memory():
            return price(tmp_path_factory.mktemp("decoder"), MODELS[name]["config"], batch=batch_of(name))

    return priced


def batch_of(name: str) -> int:
    return 3 if name in MANY else 1


def price(tmp_path: Path, config: dict[str, Any], **more: Any) -> dict[str, Any]:
    (tmp_path / "config.json").write_text(json.dumps(config))
    asked = {"prompt": PROMPT, "depths": [DEPTH], "batch": 1, "trust": False, **more}
    found: dict[str, Any] = decoder_costs.costs(path=str(tmp_path), **asked)
    return found


def pairs(first: int, number: int, window: int | None) -> int:
    """Keys that tokens at positions from `first` see, in all."""
    return sum(min(at + 1, window or at + 1) for at in range(first, first + number))


@pytest.mark.parametrize("name", MODELS)
def test_costs_are_those_of_the_formulas(name: str, priced: Callable[[str], dict[str, Any]]) -> None:
    check(name, priced(name), batch_of(name))


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS)
def test_costs_of_other_numbers_of_sequences_are_those_of_the_formulas(name: str, tmp_path: Path) -> None:
    batch = 4 - batch_of(name)
    check(name, price(tmp_path, MODELS[name]["config"], batch=batch), batch)


def check(name: str, found: dict[str, Any], batch: int) -> None:
    given = MODELS[name]
    config = given["config"]
    size = config.get("hidden_size", config.get("n_embd"))
    words = config["vocab_size"] * size
    num_layers = config.get("num_hidden_layers", config.get("n_layer"))
    heads, groups, head, windows = given["attention"]
    positions = given.get("table", 0)
    layers = num_layers * given["layer"]
    assert found["num_params"] == layers + words * (1 if given["tied"] else 2) + positions + given["vectors"]
    assert found["cache_per_token"] == num_layers * 2 * groups * head
    prefill, decode = found["passes"]
    assert prefill["matrix_macs"] == batch * (PROMPT * layers + words)
    assert decode["matrix_macs"] == batch * (layers + words)
    seen = sum(pairs(0, PROMPT, window) for window in windows)
    assert prefill["attention_macs"] == batch * seen * heads * 2 * head
    seen = sum(pairs(DEPTH, 1, window) for window in windows)
    assert decode["attention_macs"] == batch * seen * heads * 2 * head
    assert decode["cache_read"] == batch * seen * groups * 2 * head
    assert prefill["cache_read"] == batch * PROMPT * num_layers * groups * 2 * head
    kept = sum(min(DEPTH + 1, (window or DEPTH + 2) - 1) for window in windows)
    assert decode["cache_kept"] == batch * kept * groups * 2 * head
    # Rows of the tables that are looked up in: of words where they are not the output's too, and of positions.
    rows = size * ((not given["tied"]) * batch + bool(positions))
    assert decode["weights_read"] == layers + words + given["vectors"] + rows
    assert prefill["weights_read"] == layers + words + given["vectors"] + PROMPT * rows


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_as_many_as_published(name: str, priced: Callable[[str], dict[str, Any]]) -> None:
    number = priced(name)["num_params"] - MODELS[name].get("beyond", 0)
    digits = MODELS[name]["published"].removesuffix("B")
    unit = 10 ** (9 - len(digits.partition(".")[2]))
    # Some are rounded, others cut: Qwen's page says 7.61B of 7,615,616,512.
    assert round(float(digits) * 1e9) in {unit * (number // unit), unit * round(number / unit)}


def test_a_prompt_longer_than_its_positions_is_told(tmp_path: Path) -> None:
    config = {**LLAMA, "max_position_embeddings": 8192}
    assert price(tmp_path, config, prompt=8192, depths=[8191])["notes"] == []
    assert len(price(tmp_path, config, prompt=8193, depths=[])["notes"]) == 1
    (note,) = price(tmp_path, config, prompt=1, depths=[8192])["notes"]
    assert note == "its configuration has positions for 8192 tokens, fewer than 8193"


def test_nothing_is_allocated(priced: Callable[[str], dict[str, Any]]) -> None:
    """See `little_memory`, which would not do for weights."""
    with little_memory(), pytest.raises(MemoryError):
        bytearray(2 * 8_030_261_248)
    assert priced("Llama 3.1 8B")["num_params"] == 8_030_261_248


TINY = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 32}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **TINY}


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"architectures": ["BertForMaskedLM"], "model_type": "bert", **TINY}, "does not generate text"),
        ({"architectures": ["T5ForConditionalGeneration"], "model_type": "t5"}, "has an encoder"),
        ({"architectures": ["NoSuchForCausalLM"], "model_type": "llama"}, "NoSuchForCausalLM, which transformers"),
        (
            {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **TINY, "hidden_size": 63},
            "cannot read its config",
        ),
        ({"architectures": ["LlamaForCausalLM"], "model_type": "llama", **TINY, "vocab_size": -9}, "cannot build it"),
        ({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", **TINY}, "cannot run it without weights"),
        ({"architectures": ["Llama4ForCausalLM"], "model_type": "llama4_text", **TINY}, "and no experts"),
        ({"architectures": ["BloomForCausalLM"], "model_type": "bloom"}, "computes attention by itself"),
        ({"architectures": ["X"], "model_type": "x", "auto_map": {"AutoModel": "evil.X"}}, "add --trust"),
    ],
)
def test_what_cannot_be_priced_is_refused(config: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=reason):
        price(tmp_path, config, prompt=8, depths=[])


def test_a_real_network_does_as_many_products(tmp_path: Path) -> None:
    """PyTorch's own counter, of the network with weights, where attention sees all pairs of tokens."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import AutoConfig, AutoModelForCausalLM

    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **TINY, "num_key_value_heads": 2}
    (prefill,) = price(tmp_path, config, prompt=32, depths=[])["passes"]
    model = AutoModelForCausalLM.from_config(
        AutoConfig.from_pretrained(str(tmp_path)), attn_implementation="eager", dtype=torch.float32
    ).eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(input_ids=torch.zeros((1, 32), dtype=torch.long), logits_to_keep=1)
    all_pairs = prefill["attention_macs"] * 32 * 32 // math.comb(33, 2)
    assert counter.get_total_flops() == 2 * (prefill["matrix_macs"] + all_pairs)
