"""Cases of two parts: a folder of files as one text, and a model beside it in hexadecimal digits."""

from __future__ import annotations

import random
from collections.abc import Iterator

from fuzz import mutations

MARK = b"=== model\n"
"""The line between the text and the model."""


def joined(text: bytes, model: bytes) -> bytes:
    """A case of a text and a model."""
    return text + MARK + model.hex().encode()


def parts(content: bytes) -> tuple[bytes, bytes]:
    """The text and the model of a case; a model whose digits are damaged is empty."""
    text, _, digits = content.partition(MARK)
    try:
        return text, bytes.fromhex(digits.decode("ascii", "replace"))
    except ValueError:
        return text, b""


def changed(content: bytes, chance: random.Random, most_bytes: int) -> bytes:
    """A case with changes in its text or in its model."""
    text, model = parts(content)
    if chance.random() < 0.5:
        text = mutations.of_lines(text, chance, most_bytes)
    else:
        model = mutations.of_model(model, chance, most_bytes)
    found = joined(text, model)
    return found if text and model and len(found) <= most_bytes else b""


def smaller(content: bytes) -> Iterator[bytes]:
    """Cases with less in their model, or with less in their text."""
    text, model = parts(content)
    for less in mutations.smaller_models(model):
        yield joined(text, less)
    for less in mutations.smaller_lines(text):
        yield joined(less, model)
