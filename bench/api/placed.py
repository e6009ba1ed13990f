"""The provider of a cell, with options of the runtime that are not its defaults: `cpu`, `cpu+winograd`.

The options stand behind the provider's own name in alphabetical order, so each set of them has one spelling.
"""

from __future__ import annotations

from collections.abc import Iterable

MARK = "+"


def name_of(provider: str, options: Iterable[str]) -> str:
    """A provider with further options."""
    plain, given = split(provider)
    return MARK.join((plain, *sorted({*given, *options})))


def split(provider: str) -> tuple[str, tuple[str, ...]]:
    """The provider's own name and the names of its options."""
    plain, *options = provider.split(MARK)
    return plain, tuple(options)


def is_on_cpu(provider: str) -> bool:
    """Whether a provider computes on the processor, by its name: `cpu`, `cpu-bf16+gelu_approximation`."""
    return "cpu" in split(provider)[0].split("-")
