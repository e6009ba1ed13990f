"""Code that all PyTorch models of a user share: tensors in and out in order, and weights in a safetensors file.

The module imports PyTorch, so the files in `formats/` import it inside functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from bench.api import Arrays
from bench.api.errors import InputError


class Flat(nn.Module):
    """A wrapper of a model: takes the inputs in order and returns a tuple of tensors instead of any nested output.

    Its inputs are optional arguments, not `*inputs`: exporters count the arguments that they trace.

    Args:
        model: the model to wrap.
        names: names of the model's arguments, for a model that is called by name; None to call it in order.
    """

    MOST: ClassVar[int] = 8
    """Most inputs that `forward` takes."""

    def __init__(self, model: nn.Module, names: tuple[str, ...] | None = None) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(
        self, a: Any, b: Any = None, c: Any = None, d: Any = None, e: Any = None, f: Any = None, g: Any = None,
        h: Any = None,
    ) -> tuple[torch.Tensor, ...]:  # fmt: skip
        tensors = [tensor for tensor in (a, b, c, d, e, f, g, h) if tensor is not None]
        output = (
            self.model(*tensors) if self.names is None else self.model(**dict(zip(self.names, tensors, strict=True)))
        )
        return tuple(tensor for _, tensor in _tensors_in(output))


def _tensors_in(value: Any, name: str = "") -> list[tuple[str, torch.Tensor]]:
    """Names and tensors of a nested output in order, named by keys of dicts and by places in lists and tuples.

    Raises:
        InputError: the output holds another type than tensors, dicts, lists, tuples and plain values.
    """
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
    return [pair for key, item in pairs for pair in _tensors_in(item, prefix + key)]


class Run:
    """A model that takes and returns arrays by name; its outputs of bfloat16, which NumPy lacks, become float32.

    Args:
        model: the model to run.
        by_name: whether the model takes its inputs by name; otherwise it takes them in their order.

    Attributes:
        nested: whether runtimes and exporters need a `Flat` around the model, because its latest output was neither a
            tensor nor a list of tensors.
    """

    def __init__(self, model: nn.Module, *, by_name: bool = False) -> None:
        self._model, self._by_name = model, by_name
        self.nested = False

    def __call__(self, feeds: Arrays) -> Arrays:
        """Output arrays by name.

        Raises:
            InputError: the output holds other values than tensors, or needs a `Flat`, which takes fewer inputs.
        """
        tensors = {name: torch.from_numpy(array.copy()) for name, array in feeds.items()}
        with torch.inference_mode():
            output = self._model(**tensors) if self._by_name else self._model(*tensors.values())
        items = output if type(output) in (list, tuple) else [output]
        self.nested = not all(isinstance(item, torch.Tensor) for item in items)
        if self.nested and len(feeds) > Flat.MOST:
            raise InputError(
                f"it has {len(feeds)} inputs and does not return plain tensors; then {Flat.MOST} are allowed"
            )
        return {
            name: (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
            for name, tensor in _tensors_in(output)
        }


def save(model: nn.Module, path: Path) -> None:
    """Write a module's parameters and buffers as safetensors, shared tensors once."""
    from safetensors.torch import save_model

    save_model(model, str(path))


def restore(model: nn.Module, path: Path) -> nn.Module:
    """The module with the weights of a file that `save` wrote, switched to inference."""
    from safetensors.torch import load_model

    load_model(model, str(path))
    return model.eval()
