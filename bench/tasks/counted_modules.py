"""Counts the parts of a PyTorch model while it is built, before memory is taken for its weights.

The module imports PyTorch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.modules import module as hooks

from bench.api.errors import InputError
from bench.tasks.pretrained_folder import Weights

_MOST_TIMES = 2
"""Weights of a model for each of its files: two tables of tokens may be stored once."""
_FREE_ELEMENTS = 2**24
"""Weights that the files may lack besides, and that are drawn at random."""
_FREE_MODULES, _MODULES_OF_TENSOR = 2_000, 20
_MODULES_ALONE = 200_000
"""Modules of a model of which there are no files: it gets no memory."""
_FREE_BUFFERS = 2**26
"""Numbers in buffers, such as masks of positions, that no file holds."""


@contextlib.contextmanager
def counted(weights: Weights) -> Iterator[None]:
    """Refuse a model of more parts than the files can hold as soon as one part too many is made.

    Parts are counted that are made on the meta device, where transformers builds a model before it reads the weights.

    Args:
        weights: the files; of `NO_WEIGHTS`, modules alone are counted.

    Raises:
        InputError: the model has too many modules or weights; the message has the figures.
    """
    most = {
        "modules": _FREE_MODULES + _MODULES_OF_TENSOR * weights.num_tensors,
        "weights": _FREE_ELEMENTS + _MOST_TIMES * weights.num_elements,
        "numbers in buffers": _FREE_BUFFERS + _MOST_TIMES * weights.num_elements,
    }
    if not weights.files:
        most = {"modules": _MODULES_ALONE}
    counts = dict.fromkeys(most, 0)

    def add(what: str, number: int) -> None:
        if what not in most:
            return
        counts[what] += number
        if counts[what] > most[what]:
            figures = f" and its files hold {weights.num_elements:,} weights in {weights.num_tensors:,} tensors,"
            raise InputError(
                f"its config.json makes more than {most[what]:,} {what},{figures if weights.files else ''} so it is of "
                "another model, or wrong"
            )

    def module(parent: Any, name: str, child: torch.nn.Module | None) -> None:
        add("modules", 1)

    def tensor(what: str, new_tensor: torch.Tensor | None) -> None:
        if new_tensor is not None and new_tensor.is_meta:
            add(what, new_tensor.numel())

    handles = (
        hooks.register_module_module_registration_hook(module),
        hooks.register_module_parameter_registration_hook(lambda parent, name, parameter: tensor("weights", parameter)),
        hooks.register_module_buffer_registration_hook(
            lambda parent, name, buffer: tensor("numbers in buffers", buffer)
        ),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
