"""What an engine must know of a model of transformers to generate with it, learned by running it once with a cache."""

from __future__ import annotations

import collections
import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from transformers import DynamicCache

from bench.api.decoder import Decoder, Request
from bench.api.generation import Stepper
from bench.plugins.engines.pytorch.stepper import PassStepper, TorchStepper
from bench.plugins.engines.pytorch.steps import Step
from bench.tasks.failures import one_line
from bench.tasks.transformers_inputs import most_positions

KEEP = "logits_to_keep"
"""Name of the argument that says of how many tokens, the last ones, logits are wanted."""
_USUAL_POSITIONS = 2048
"""Of a model whose configuration tells no most."""
_EXAMPLE_TOKENS = 3
_NUM_PROMPT, _NUM_STEPS = 5, 3
"""Tokens of the text that shows whether passes with a cache give the model's own logits."""
CLOSE = 1e-3
"""Of the standard deviation of the logits: float32 in another order of operations is off by a hundredth of it."""


def facts(model: Any) -> dict[str, int] | str:
    """The fields of a `bench.api.decoder.Decoder` of a model, or the reason why it is none that generates here.

    Args:
        model: a model of transformers with its weights.
    """
    try:
        with torch.inference_mode(), _eager(model):
            fields = _found(model)
            return fields if isinstance(fields, str) else _difference(model, Decoder(**fields)) or fields
    except Exception as error:  # a model's own code fails in ways of its own, and can be measured without a cache
        return f"it does not run with a cache ({one_line(error)})"


@contextlib.contextmanager
def _eager(model: Any) -> Iterator[None]:
    """Attention as transformers writes it out: fused kernels leave out what some models add to it."""
    before = model.config._attn_implementation
    model.config._attn_implementation = "eager"
    try:
        yield
    finally:
        model.config._attn_implementation = before


def _difference(model: Any, decoder: Decoder) -> str | None:
    """Compare the passes that are measured, and those that are exported, with one pass over all tokens."""
    request = Request(decoder=decoder, num_prompt=_NUM_PROMPT, num_new=_NUM_STEPS + 1, num_scored=1, num_greedy=1)
    ids = 1 + torch.arange(_NUM_PROMPT + _NUM_STEPS) * 7 % (model.get_input_embeddings().num_embeddings - 1)
    whole = model(input_ids=ids[None], use_cache=False).logits[0, _NUM_PROMPT - 1 :].float()
    exported: Stepper = PassStepper(Step(model), request, None, "float32")
    stepped = _stepped(exported, ids)
    static = _stepped(TorchStepper(Step(model), request, lambda module: module, "float32"), ids)
    for described, logits in (("passes with a growing cache", stepped), ("passes with a static cache", static)):
        worst = float((logits - whole).abs().max() / whole.std())
        if not worst < CLOSE:
            return f"its {described} differ from one pass over all tokens ({worst:.2g} standard deviations of a logit)"
    return None


def _stepped(stepper: Stepper, ids: torch.Tensor) -> torch.Tensor:
    """Logits (steps + 1, V) after a prompt and after each later token."""
    rows = [stepper.start(ids[:_NUM_PROMPT].numpy()), *(stepper.step(int(token)) for token in ids[_NUM_PROMPT:])]
    return torch.stack([torch.from_numpy(row).reshape(-1).float() for row in rows])


def _found(model: Any) -> dict[str, int] | str:
    config = model.config.get_text_config()
    if getattr(model.config, "is_encoder_decoder", False):
        return "it has an encoder"
    if KEEP not in inspect.signature(model.forward).parameters:
        return f"its class takes no {KEEP}"
    ids = torch.ones((1, _EXAMPLE_TOKENS), dtype=torch.int64)
    cache = DynamicCache()
    logits = model(input_ids=ids, past_key_values=cache, use_cache=True, **{KEEP: 1}).logits
    shapes = {tuple(tensor.shape) for layer in cache.layers for tensor in _kept(layer)}
    if len(shapes) != 1 or len(cache.layers) * 2 != sum(len(_kept(layer)) for layer in cache.layers):
        return "its layers do not all keep the same keys and values of every token"
    if not _uses_each_matrix_once(model, ids[:, :1]):
        return "a token does not use each of its matrices once, so what a step reads is not known"
    _, num_groups, num_tokens, head_size = shapes.pop()
    if num_tokens != _EXAMPLE_TOKENS:
        return "its layers do not keep the keys and values of every token"
    fields = {
        "num_layers": len(cache.layers),
        "num_heads": int(config.num_attention_heads),
        "num_groups": num_groups,
        "head_size": head_size,
        "vocabulary": int(logits.shape[-1]),
        "max_positions": min(most_positions(model.config) or _USUAL_POSITIONS, _window(config)),
        "weights_read": _weights_read(model),
    }
    end = getattr(config, "eos_token_id", None)
    ends = {"pad_id": getattr(config, "pad_token_id", None), "end_id": end[0] if isinstance(end, list) and end else end}
    if ends["pad_id"] == ends["end_id"]:
        ends["pad_id"] = None
    return {**fields, **{name: token for name, token in ends.items() if isinstance(token, int) and token >= 0}}


def _uses_each_matrix_once(model: Any, ids: torch.Tensor) -> bool:
    """Whether a pass over a token uses each of the model's matrices once, unlike experts and parts that see images."""
    if any(weight.ndim > 2 for weight in model.parameters()):
        return False
    uses: collections.Counter[int] = collections.Counter()
    holders = [module for module in model.modules() if any(weight.ndim == 2 for weight in module.parameters(False))]
    hooks = [module.register_forward_hook(lambda module, *_: uses.update([id(module)])) for module in holders]
    try:
        model(input_ids=ids)
    finally:
        for hook in hooks:
            hook.remove()
    return all(uses[id(module)] == 1 for module in holders)


def _window(config: Any) -> int:
    """Tokens that every layer looks back over: beyond, some see less than all tokens, which is not measured here."""
    window = getattr(config, "sliding_window", None)
    return window if isinstance(window, int) and getattr(config, "use_sliding_window", True) else _USUAL_POSITIONS**2


def _kept(layer: Any) -> list[torch.Tensor]:
    tensors = (getattr(layer, "keys", None), getattr(layer, "values", None))
    return [tensor for tensor in tensors if isinstance(tensor, torch.Tensor)]


def _weights_read(model: Any) -> int:
    """Every weight but a table of tokens that is no head as well: of such a table a step reads a row."""
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    total = sum(weight.numel() for weight in model.parameters())
    is_tied = head is not None and head.weight is table.weight
    return int(total if is_tied else total - table.weight.numel() + table.weight.shape[1])
