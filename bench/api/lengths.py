"""Inputs that tell how much of another input is filled, as their names say, such as `input_lengths` or `seq_len`.

A length of 0 leaves a model nothing to compute with, and one beyond the other input's size reads past it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from bench.api.tensors import TensorSpec

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LENGTHS = re.compile(r"(?P<of>\w*?)lengths?|(?P<short>\w{0,3}?)lens?")
"""A word for lengths, perhaps with the name of what they are of before it, as in `ilens`."""
OTHERS = {"past", "total", "max", "maximum", "min", "minimum"}
"""Words of lengths that are no size of another input: of a cache, or limits of what is generated."""


def domains(inputs: Iterable[TensorSpec], sizes: Mapping[str, int] = {}) -> dict[str, tuple[int, int]]:
    """The least and the largest length that fits, by the names of the inputs of integers that hold lengths.

    The largest is the smallest dynamic dimension, or else the smallest dimension, of the inputs that the name of the
    lengths names, or else of all others.

    Args:
        inputs: specs of all inputs; the first dimension is that of the samples where the lengths have it, too.
        sizes: sizes of the dynamic dimensions by name; those without a size are left out.
    """
    specs = list(inputs)
    named = {spec.name: of for spec in specs if (of := _named(spec)) is not None}
    others = [spec for spec in specs if spec.name not in named and len(spec.shape) > 1]
    others = others or [spec for spec in specs if spec.name not in named]
    ranges = {}
    for spec in specs:
        if spec.name not in named:
            continue
        of = named[spec.name]
        related = [other for other in others if of and any(word.startswith(of) for word in _words(other.name))]
        dims = [dim for other in related or others for dim in _measured(spec, other)]
        dynamic = [sizes[dim] for dim in dims if isinstance(dim, str) and dim in sizes]
        largest = min(dynamic or [dim for dim in dims if isinstance(dim, int)], default=0)
        if largest > 0:
            ranges[spec.name] = (1, largest)
    return ranges


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _named(spec: TensorSpec) -> str | None:
    """What an input of lengths is named after, as `x` in `x_lengths`, in small letters; None where it holds none."""
    words = _words(spec.name)
    is_one_each = all(size == 1 for size in spec.shape[1:])
    if not spec.dtype.startswith(("int", "uint")) or not is_one_each or not OTHERS.isdisjoint(words):
        return None
    for before, word in zip(["", *words], words, strict=False):
        if (match := _LENGTHS.fullmatch(word)) is not None:
            return match["of"] or match["short"] or before
    return None


def _measured(lengths: TensorSpec, other: TensorSpec) -> Sequence[int | str]:
    """The dimensions of another input that lengths may be of: all but that of the samples."""
    first, rest = other.shape[:1], other.shape[1:]
    has_samples = first in (lengths.shape[:1], (1,)) or any(isinstance(dim, str) for dim in rest)
    return rest if has_samples else other.shape
