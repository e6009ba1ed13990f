"""What every PyTorch model of one's own has in common: plain tensors in and out, and weights in a file of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import nn

from bench.api.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray]


class Flat(nn.Module):
    """A model that takes its inputs in order and returns a tuple of tensors, whatever it returned them in.

    Its inputs are optional arguments, not `*inputs`: exporters count the arguments that they trace.
    """

    MOST: ClassVar[int] = 8

    def __init__(self, model: nn.Module, names: tuple[str, ...] | None = None) -> None:
        super().__init__()
        self.model = model
        self.names = names
        """Of the arguments, for a model that is called by name."""

    def forward(
        self, a: Any, b: Any = None, c: Any = None, d: Any = None, e: Any = None, f: Any = None, g: Any = None,
        h: Any = None,
    ) -> tuple[torch.Tensor, ...]:  # fmt: skip
        given = [tensor for tensor in (a, b, c, d, e, f, g, h) if tensor is not None]
        if self.names is None:
            return tuple(tensor for _, tensor in tensors_in(self.model(*given)))
        return tuple(tensor for _, tensor in tensors_in(self.model(**dict(zip(self.names, given, strict=True)))))


def tensors_in(value: Any, name: str = "") -> list[tuple[str, torch.Tensor]]:
    """All tensors of what a model returned, in order, with names: those of dicts, or of their places."""
    if isinstance(value, torch.Tensor):
        return [(name or "output", value)]
    if value is None or isinstance(value, (int, float, str, bool)):
        return []
    if isinstance(value, Mapping):
        pairs = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        pairs = [(str(place), item) for place, item in enumerate(value)]
    else:
        raise InputError(f"it returns {type(value).__name__}; it must return tensors, alone or in tuples or dicts")
    prefix = f"{name}_" if name else "" if isinstance(value, Mapping) else "output_"
    return [found for key, item in pairs for found in tensors_in(item, prefix + key)]


def is_flat(value: Any) -> bool:
    """Whether a model returns what runtimes take as it is."""
    if isinstance(value, torch.Tensor):
        return True
    return type(value) in (list, tuple) and all(isinstance(item, torch.Tensor) for item in value)


def call(model: nn.Module, feeds: Arrays, *, by_name: bool = False) -> Any:
    """What the model returns for arrays, which it takes in their order."""
    tensors = {name: torch.from_numpy(array.copy()) for name, array in feeds.items()}
    with torch.inference_mode():
        return model(**tensors) if by_name else model(*tensors.values())


def outputs_of(model: nn.Module, feeds: Arrays, *, by_name: bool = False) -> dict[str, np.ndarray]:
    """Outputs by name."""
    found = tensors_in(call(model, feeds, by_name=by_name))
    return {
        name: tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy() for name, tensor in found
    }


def needs_flat(model: nn.Module, feeds: Arrays) -> bool:
    """Whether runtimes and exporters need a `Flat` around the model.

    Raises:
        InputError: it has too many inputs for that.
    """
    if is_flat(call(model, feeds)):
        return False
    if len(feeds) > Flat.MOST:
        raise InputError(f"it has {len(feeds)} inputs and does not return plain tensors; then {Flat.MOST} are allowed")
    return True


def save(model: nn.Module, path: Path) -> None:
    """Write parameters and buffers, shared ones once."""
    from safetensors.torch import save_model

    save_model(model, str(path))


def restore(model: nn.Module, path: Path) -> nn.Module:
    """The model with the weights of such a file, for inference."""
    from safetensors.torch import load_model

    load_model(model, str(path))
    return model.eval()
