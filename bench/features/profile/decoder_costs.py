"""What a decoder of transformers costs in prefill and decode, from its configuration alone: nothing is allocated.

The model is built on PyTorch's meta device, where a tensor has a shape and no memory, and is run there with a cache, so
whatever an architecture does differently (grouped queries, windows, tied embeddings) is seen, and not inferred.

Shapes: N batch, T tokens of a pass, S keys, H query heads, G key and value heads, K size of a head.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AttentionInterface

from bench.api.errors import InputError
from bench.measure.generation import Pass
from bench.tasks import pretrained_folder, transformers_models
from bench.tasks.counted_modules import counted
from bench.tasks.failures import refused
from bench.tasks.torch_decoders import KEEP
from bench.tasks.transformers_inputs import most_positions

_COUNTED = "counted"
"""Name of the attention that counts, among those of transformers."""


class Counter(TorchDispatchMode):
    """Counts the products with weights, the rows that are looked up, and the attention, of what runs within it.

    `rows_read` has the elements of the rows of tables, by the table's identity; indices count as different.
    """

    def __init__(self) -> None:
        super().__init__()
        self.matrix_macs = self.attention_macs = self.cache_read = self.num_attentions = 0
        self.rows_read: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if name in ("mm", "addmm"):
            left, right = args[-2:]
            self.matrix_macs += left.shape[0] * left.shape[1] * right.shape[1]
        elif name == "embedding":
            table, indices = args[:2]
            self.rows_read[id(table)] = min(indices.numel(), len(table)) * table.shape[1]
        return func(*args, **(kwargs or {}))

    def attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, window: int | None) -> None:
        """Count one attention: query (N, H, T, K), key and value (N, G, S, K), a token seeing `window` keys at most."""
        batch, heads, num_tokens, size = query.shape
        num_keys = key.shape[2]
        seen = [num_keys - num_tokens + at + 1 for at in range(num_tokens)]
        pairs = sum(min(number, window) if window else number for number in seen)
        self.attention_macs += batch * heads * pairs * (size + value.shape[3])
        first = max(0, min(seen) - window) if window else 0
        self.cache_read += batch * key.shape[1] * (num_keys - first) * (key.shape[3] + value.shape[3])
        self.num_attentions += 1


def costs(*, path: str, prompt: int, depths: list[int], batch: int, trust: bool) -> dict[str, Any]:
    """The request to a child process: what the decoder of a folder costs.

    Args:
        path: the folder, with a `config.json`.
        prompt: tokens of a prompt.
        depths: for each decode step to price, how many tokens are in the cache before it.
        batch: sequences at once.
        trust: whether code in the folder may run.

    Returns:
        `architecture`; `num_params`, equal ones counted once; `cache_per_token`: elements of keys and values that a
        token of one sequence adds; `stored`: the name of the type of the weights; `passes`: fields of a `Pass` for the
        prefill and for each depth; `notes`: lines to tell the user.

    Raises:
        InputError: transformers cannot build a decoder from the configuration, or cannot run it without its weights.
    """
    pretrained_folder.check_counts(pretrained_folder.config_of(Path(path)), pretrained_folder.NO_WEIGHTS)
    folder_model = transformers_models.opened(Path(path), trust=trust, has_weights=False)
    model = _built(folder_model)
    notes = list(folder_model.notes)
    most, longest = most_positions(folder_model.config), max([prompt, *(depth + 1 for depth in depths)])
    if most is not None and longest > most:
        notes.append(f"its configuration has positions for {most} tokens, fewer than {longest}")
    if KEEP not in inspect.signature(model.forward).parameters:
        notes.append("its class computes the logits of every token of the prompt, and so they are counted")
    with refused("transformers cannot run it without weights"), torch.no_grad(), torch.device("meta"):
        passes = [_pass(model, batch, 0, prompt), *(_pass(model, batch, depth, 1) for depth in depths)]
        token_pass = _pass(model, 1, 0, 1)
    _check(model, token_pass)
    return {
        "architecture": type(model).__name__,
        "num_params": sum(weight.numel() for weight in model.parameters()),
        "cache_per_token": token_pass.cache_kept,
        "stored": str(getattr(folder_model.config, "dtype", None) or "float32").removeprefix("torch."),
        "passes": [dataclasses.asdict(each) for each in passes],
        "notes": notes,
    }


def _built(folder_model: transformers_models.Opened) -> Any:
    """The model on the meta device, with the attention that counts."""
    kind = folder_model.kind
    if not hasattr(kind, "can_generate") or not kind.can_generate():
        raise InputError(f"{kind.__name__} does not generate text: its prefill and decode have no price")
    if getattr(folder_model.config, "is_encoder_decoder", False):
        raise InputError(
            f"{kind.__name__} has an encoder; only models of a decoder alone are priced",
            fix="`bench profile` prices an ONNX file of each part",
        )
    AttentionInterface.register(_COUNTED, _attention)
    folder_model.config.use_cache = True
    failing = refused("transformers cannot build it from its config.json")
    with failing, counted(pretrained_folder.NO_WEIGHTS), torch.device("meta"):
        model = kind._from_config(folder_model.config, attn_implementation="eager")
        model.config._attn_implementation = _COUNTED  # beyond transformers' check of what a class supports
    model.tie_weights()
    return model.eval()


_counter: list[Counter] = []
"""The counter at work, if there is one: transformers passes no argument of ours to an attention."""


def _attention(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, **options: Any
) -> tuple[torch.Tensor, None]:
    """An attention of transformers' interface that computes nothing; gives (N, T, H, K)."""
    for counter in _counter:
        counter.attend(query, key, value, options.get("sliding_window"))
    batch, heads, num_tokens, _ = query.shape
    return query.new_empty((batch, num_tokens, heads, value.shape[3])), None


def _pass(model: Any, batch: int, depth: int, num_tokens: int) -> Pass:
    """What a pass over so many tokens costs after `depth` ones."""
    cache = _run(model, batch, 0, depth, None) if depth else None
    counter = Counter()
    _counter.append(counter)
    try:
        with counter:
            cache = _run(model, batch, depth, num_tokens, cache)
    finally:
        _counter.clear()
    if not counter.num_attentions:
        raise InputError("its class computes attention by itself, which is not counted here")
    tables = _tables(model)
    rows = sum(counter.rows_read.get(id(table), 0) for table in tables)
    return Pass(
        num_tokens=num_tokens,
        depth=depth,
        matrix_macs=counter.matrix_macs,
        attention_macs=counter.attention_macs,
        weights_read=sum(weight.numel() for weight in model.parameters()) - sum(map(torch.numel, tables)) + rows,
        cache_read=counter.cache_read,
        cache_kept=sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers),
    )


def _check(model: Any, token_pass: Pass) -> None:
    """Refuse a model of which a token does not use each matrix once, as with experts: its price would be wrong.

    Raises:
        InputError: it is such a model.
    """
    matrices = sum(weight.numel() for weight in model.parameters() if weight.ndim >= 2)
    used = matrices - sum(map(torch.numel, _tables(model)))
    if token_pass.matrix_macs != used:
        raise InputError(
            f"a token is multiplied with {token_pass.matrix_macs:,} weights, and its matrices hold {used:,}: only "
            "models that use each matrix once a token are priced, and no experts"
        )


def _run(model: Any, batch: int, depth: int, num_tokens: int, cache: Any) -> Any:
    """Run a pass, whose last token alone gets logits; returns the cache."""
    parameters = inspect.signature(model.forward).parameters
    only: dict[str, Any] = {KEEP: 1} if KEEP in parameters else {}
    tokens_NT = torch.zeros((batch, num_tokens), dtype=torch.long)
    positions_1T = torch.arange(depth, depth + num_tokens)[None]
    output = model(input_ids=tokens_NT, position_ids=positions_1T, past_key_values=cache, use_cache=True, **only)
    return output.past_key_values


def _tables(model: Any) -> list[torch.Tensor]:
    """The tables that are only looked up in: embeddings but one that the output layer has, too."""
    output = model.get_output_embeddings()
    weights = [module.weight for module in model.modules() if isinstance(module, nn.Embedding)]
    return [weight for weight in weights if output is None or weight is not output.weight]
