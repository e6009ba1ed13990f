"""Generates the three splits of form lines, always the same: `python datasets/form_lines/make.py` prints their sums.

Training and evaluation share no label, whatever the seeds (see `lexicon.is_held_out`); `new_fonts` shares no font with
training either. A split's first n lines are the same however many are generated.

Shapes: N lines, H = 32 rows, W = 400 columns.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from bench.api.errors import InputError
from bench.api.loading import load_module

FOLDER = Path(__file__).parent
lexicon: Any = load_module(FOLDER / "lexicon.py")
render: Any = load_module(FOLDER / "render.py")

SUMS = FOLDER / "sums.json"
"""SHA-256 of each whole split and of each committed file, with the versions that made them."""
MAKERS = ("numpy", "pillow", "matplotlib")
"""Distributions that the pixels depend on: Pillow holds FreeType, matplotlib the fonts."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a split is made."""

    num_lines: int
    seed: int
    held_out: bool
    fonts: tuple[str, ...]


RECIPES = {
    "train": Recipe(num_lines=14_000, seed=1, held_out=False, fonts=render.TRAINED_FONTS),
    "validation": Recipe(num_lines=1_500, seed=2, held_out=True, fonts=render.TRAINED_FONTS),
    "new_fonts": Recipe(num_lines=1_000, seed=3, held_out=True, fonts=render.NEW_FONTS),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lines:
    """Lines of a split, each field in their order.

    Attributes:
        images: grey levels (N, H, W), uint8.
        texts: what the lines say.
        is_numeric: whether each field holds numbers (N,), bool.
        fonts: the font of each.
        lefts, widths: columns (N,) of the part that was drawn; outside it the edge columns are repeated.
    """

    images: np.ndarray
    texts: tuple[str, ...]
    is_numeric: np.ndarray
    fonts: tuple[str, ...]
    lefts: np.ndarray
    widths: np.ndarray


def generate(split: str, num_lines: int | None = None) -> Lines:
    """The first lines of a split, or all of them.

    Args:
        split: a key of `RECIPES`.
        num_lines: how many; all when left out.
    """
    recipe = RECIPES[split]
    random, noise = Random(recipe.seed), np.random.RandomState(recipe.seed)
    labels: list[Any] = []
    fonts: list[str] = []
    drawings: list[Any] = []
    while len(labels) < (recipe.num_lines if num_lines is None else num_lines):
        label = lexicon.draw_label(random)
        if lexicon.is_held_out(label.text) != recipe.held_out:
            continue
        labels.append(label)
        fonts.append(random.choice(recipe.fonts))
        drawings.append(render.draw_line(label.text, fonts[-1], random, noise))
    return Lines(
        images=np.stack([drawing.image for drawing in drawings]),
        texts=tuple(label.text for label in labels),
        is_numeric=np.array([label.is_numeric for label in labels]),
        fonts=tuple(fonts),
        lefts=np.array([drawing.left for drawing in drawings]),
        widths=np.array([drawing.width for drawing in drawings]),
    )


def generate_checked(split: str) -> Lines:
    """A whole split, proved to be the one that the committed weights were trained and measured on.

    Raises:
        InputError: the lines made here differ from it.
    """
    lines, sums = generate(split), json.loads(SUMS.read_text())
    if digest(lines) != sums["splits"][split]:
        made_with = ", ".join(f"{name} {version}" for name, version in sums["made_with"].items())
        here = ", ".join(f"{name} {version}" for name, version in versions().items())
        fix = "pip install " + " ".join(f"{name}=={version}" for name, version in sums["made_with"].items())
        raise InputError(
            f"the {split} split of form lines generated here is not the one of {SUMS.name}: SHA-256 {digest(lines)}, "
            f"expected {sums['splits'][split]}; that one was made with {made_with}; here are {here}",
            fix=fix,
        )
    return lines


def digest(lines: Lines) -> str:
    """SHA-256 over pixels, texts, kinds, fonts and places of lines."""
    columns = zip(
        lines.texts, lines.is_numeric.tolist(), lines.fonts, lines.lefts.tolist(), lines.widths.tolist(),
        strict=True,
    )  # fmt: skip
    rows = json.dumps([lines.images.shape, list(columns)], ensure_ascii=True)
    return hashlib.sha256(rows.encode() + lines.images.tobytes()).hexdigest()


def versions() -> dict[str, str]:
    """Installed versions of what the pixels depend on."""
    return {name: importlib.metadata.version(name) for name in MAKERS}
