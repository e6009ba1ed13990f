"""A sentence embedding as sentence-transformers defines it: a transformer, a pooling of its tokens, and small layers.

Source: `sentence_transformers` 6.2.0, `modules/pooling.py`, `modules/dense.py` and `modules/normalize.py`.

Shapes: N batch, T tokens, D size of the embedding. The module imports PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench.api.errors import InputError
from bench.tasks.failures import refused
from bench.tasks.pretrained_folder import check_pickles, inside, shapes_of, shown

OUTPUT = "sentence_embedding"
_LEGACY_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Modes by the keys of older releases, in the order in which their embeddings are joined."""
_LEAST = 1e-9
"""Least number of tokens that a mean divides by: a text of padding alone has none."""


class SentenceModel(nn.Module):
    """Token ids and their mask, both int64 (N, T), and what else the transformer takes -> `sentence_embedding` (N, D).

    Args:
        transformer: the model that gives the hidden states of all tokens.
        layers: kinds and settings of the modules that follow it, the pooling first.
    """

    def __init__(self, transformer: nn.Module, layers: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        super().__init__()
        self.transformer = transformer
        self.pooling = Pooling(modes_of(layers[0][1]))
        self.layers = nn.Sequential(*[LAYERS[kind](settings) for kind, settings in layers[1:]])

    def forward(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        tokens_NTD = self.transformer(**inputs).last_hidden_state
        mask_NT = inputs.get("attention_mask")
        if mask_NT is None:
            mask_NT = torch.ones_like(inputs["input_ids"])
        return {OUTPUT: self.layers(self.pooling(tokens_NTD, mask_NT))}


class Pooling(nn.Module):
    """Hidden states (N, T, D) and the mask (N, T) of the tokens -> the embeddings of all modes, joined."""

    def __init__(self, modes: Sequence[str]) -> None:
        super().__init__()
        self.modes = tuple(modes)

    def forward(self, tokens_NTD: torch.Tensor, mask_NT: torch.Tensor) -> torch.Tensor:
        return torch.cat([_MODES[mode](tokens_NTD, mask_NT) for mode in self.modes], dim=-1)


def _first(tokens_NTD: torch.Tensor, mask_NT: torch.Tensor) -> torch.Tensor:
    """The first token that is no padding."""
    return _gathered(tokens_NTD, mask_NT.int().argmax(dim=1))


def _last(tokens_NTD: torch.Tensor, mask_NT: torch.Tensor) -> torch.Tensor:
    """The last token that is no padding."""
    return _gathered(tokens_NTD, mask_NT.shape[1] - 1 - mask_NT.int().flip(1).argmax(dim=1))


def _gathered(tokens_NTD: torch.Tensor, places_N: torch.Tensor) -> torch.Tensor:
    places_N1D = places_N[:, None, None].expand(-1, 1, tokens_NTD.shape[-1])
    return torch.gather(tokens_NTD, 1, places_N1D).squeeze(1)


def _greatest(tokens_NTD: torch.Tensor, mask_NT: torch.Tensor) -> torch.Tensor:
    return tokens_NTD.masked_fill(mask_NT[..., None] == 0, float("-inf")).amax(dim=1)


def _mean(tokens_NTD: torch.Tensor, mask_NT: torch.Tensor) -> torch.Tensor:
    mask_NT1 = mask_NT[..., None].to(tokens_NTD.dtype)
    return (tokens_NTD * mask_NT1).sum(dim=1) / mask_NT1.sum(dim=1).clamp(min=_LEAST)


_MODES = {"cls": _first, "max": _greatest, "mean": _mean, "lasttoken": _last}


class Normalized(nn.Module):
    """Embeddings (N, D) -> the same of length 1."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()

    def forward(self, embeddings_ND: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(embeddings_ND, p=2.0, dim=-1)


class Dense(nn.Module):
    """Embeddings (N, D) -> a linear map of them and an activation; the parameters are named as in the library."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        all_settings = {**DENSE, **settings}
        self.linear = nn.Linear(all_settings["in_features"], all_settings["out_features"], bias=all_settings["bias"])
        self.activation = _activation(all_settings["activation_function"])

    def forward(self, embeddings_ND: torch.Tensor) -> torch.Tensor:
        return self.activation(self.linear(embeddings_ND))


DENSE = {"bias": True, "activation_function": "torch.nn.modules.activation.Tanh"}
"""Settings of a linear map that are not in its file."""
_NAMES = {int: "a whole number", bool: "true or false", str: "a text"}
LAYERS = {"Normalize": Normalized, "Dense": Dense}
KNOWN = ("Transformer", "Pooling", *LAYERS)


def modes_of(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The modes that the settings of a pooling name, those of older releases included.

    Raises:
        InputError: a mode is not known here.
    """
    named = settings.get("pooling_mode") or [mode for key, mode in _LEGACY_MODES.items() if settings.get(key)] or "mean"
    modes = named if isinstance(named, list) else [named]
    for mode in modes:
        if not isinstance(mode, str) or mode not in _MODES:
            raise InputError(
                f"its pooling mode {shown(mode)} is not known here; known are {', '.join(_MODES)}",
                fix="write a Python file with build() and example_inputs()",
            )
    if len(set(modes)) != len(modes):
        raise InputError(f"its pooling_mode {shown(modes)} names a mode twice")
    return tuple(modes)


def check(layers: Sequence[tuple[str, Mapping[str, Any]]], folders: Sequence[Path], root: Path, *, trust: bool) -> None:
    """Check the settings of the modules after the transformer before any of them is built.

    Args:
        layers: kinds and settings of the modules, the pooling first.
        folders: their folders.
        root: the folder of all.
        trust: whether pickles may be loaded.

    Raises:
        InputError: a setting is of another type, or the weights of a module are missing, elsewhere, of another size, or
            pickled and not trusted.
    """
    modes_of(layers[0][1])
    for (kind, settings), folder in zip(layers[1:], folders[1:], strict=True):
        if kind != "Dense":
            continue
        for key, allowed in (("in_features", int), ("out_features", int), ("bias", bool), ("activation_function", str)):
            if type(value := settings.get(key, DENSE.get(key))) is not allowed:
                raise InputError(
                    f"its {folder.name} has {shown(value)} for {key}; {_NAMES[allowed]} is allowed",
                    fix="write the module's config.json as sentence-transformers does",
                )
        _activation(settings.get("activation_function", DENSE["activation_function"]))
        path = inside(weights_of(folder, trust=trust), root)
        wanted = (settings["out_features"], settings["in_features"])
        if path.suffix == ".safetensors" and (shape := shapes_of(path).get("linear.weight")) != wanted:
            raise InputError(
                f"its {folder.name} has in_features {wanted[1]:,} and out_features {wanted[0]:,}, and its "
                f"linear.weight is {'missing' if shape is None else shape}"
            )


def weights_of(folder: Path, *, trust: bool) -> Path:
    """The file with the weights of a module's folder.

    Raises:
        InputError: there is none, or it is pickled and not trusted.
    """
    path, pickled = folder / "model.safetensors", folder / "pytorch_model.bin"
    if path.is_file():
        return path
    if not pickled.is_file():
        raise InputError(f"{folder.name} has no model.safetensors")
    check_pickles(trust)
    return pickled


def load_layers(model: SentenceModel, folders: Sequence[Path], *, trust: bool) -> None:
    """Give the layers after the pooling the weights of their folders.

    Raises:
        InputError: the weights are missing, do not fit, or are pickled and not trusted.
    """
    from safetensors.torch import load_file

    for layer, folder in zip(model.layers, folders, strict=True):
        if not layer.state_dict():
            continue
        path = weights_of(folder, trust=trust)
        with refused(f"the weights in {folder.name} do not fit"):
            is_safe = path.suffix == ".safetensors"
            layer.load_state_dict(
                load_file(path) if is_safe else torch.load(path, map_location="cpu", weights_only=True)
            )


def _activation(name: str) -> nn.Module:
    """The activation that a setting names by its path, such as `torch.nn.modules.activation.Tanh`.

    Raises:
        InputError: it is none of PyTorch's.
    """
    package, _, last = name.rpartition(".")
    kind = getattr(nn, last, None) if package.startswith("torch.nn.modules.") else None
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise InputError(f"its activation {name!r} is none of PyTorch's")
    with refused(f"its activation {name!r} cannot be made without settings"):
        return kind()
