"""Form-field text lines: 1,700 to measure by and 128 to calibrate with, as files that are the same everywhere.

`load` reads only what is committed beside this file. It was generated: `python datasets/form_lines/make.py` writes it
anew, and `generate.py` makes the large splits that a network is trained and validated on.

Shapes: N lines, H = 32 rows, W = 400 columns.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import cache
from bench.api.errors import InputError
from bench.api.loading import load_module

if TYPE_CHECKING:
    import numpy as np

FOLDER = Path(__file__).parent
lexicon: Any = load_module(FOLDER / "lexicon.py")

ALPHABET: str = lexicon.ALPHABET
PARTS = {"test": (("validation", 1_500), ("new_fonts", 200)), "train": (("train", 128),)}
"""What a committed split holds: the first lines of generated ones."""
HEADER = "split\tfont\tfield\ttext"
LINE_HEIGHT = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """One line.

    Attributes:
        image: grey levels (H, W), uint8.
        text: what it says.
        is_numeric: whether its field holds numbers; otherwise it holds words.
        font: name of the font file.
        is_new_font: whether that font was kept out of training.
    """

    image: np.ndarray
    text: str
    is_numeric: bool
    font: str
    is_new_font: bool


def load(split: str) -> list[Line]:
    """The committed lines of a split, always in the same order.

    Args:
        split: `test` (1,500 lines in fonts of the training set, then 200 in new ones; no text of them is in the
            training set) or `train` (the first 128 lines of the training set).

    Raises:
        InputError: there is no such split, or a file is missing or is not the one that was committed.
    """
    if split not in PARTS:
        raise InputError(f"form lines have no split named {split!r}; there are: {', '.join(PARTS)}")
    images_NHW, table = _read(split)
    lines = []
    for image_HW, row in zip(images_NHW, table.splitlines()[1:], strict=True):
        part, font, field, text = row.split("\t")
        is_new_font = part == "new_fonts"
        lines.append(Line(image=image_HW, text=text, is_numeric=field == "numbers", font=font, is_new_font=is_new_font))
    return lines


def more(num_lines: int) -> list[Line]:
    """The first lines of the validation split, also those beyond the committed ones, in fonts of the training set.

    They are drawn when they are first asked for, and kept in the cache. Their pixels depend on the installed versions
    of what draws them, see `generate.py`.
    """
    import numpy as np

    generate = load_module(FOLDER / "generate.py")
    sources = [file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.py"))]
    key = f"form-lines-{cache.digest([num_lines, generate.versions(), sources])}"

    def make(path: Path) -> dict[str, Any]:
        lines = generate.generate("validation", num_lines)
        texts = {"texts": np.array(lines.texts), "fonts": np.array(lines.fonts), "is_numeric": lines.is_numeric}
        np.savez_compressed(path, images=lines.images, **texts)
        return {}

    path, _ = cache.obtain(key, "lines.npz", make)
    with np.load(path, allow_pickle=False) as kept:
        columns = [kept[name].tolist() for name in ("texts", "is_numeric", "fonts")]
        images_NHW = kept["images"]
    return [
        Line(image=image_HW, text=text, is_numeric=is_numeric, font=font, is_new_font=False)
        for image_HW, text, is_numeric, font in zip(images_NHW, *columns, strict=True)
    ]


def digest(images_NHW: np.ndarray, table: str) -> str:
    """SHA-256 of pixels and table, whatever the image file was compressed with."""
    return hashlib.sha256(repr(images_NHW.shape).encode() + images_NHW.tobytes() + table.encode()).hexdigest()


def _read(split: str) -> tuple[np.ndarray, str]:
    import numpy as np
    from PIL import Image

    image_path, table_path = FOLDER / f"{split}.png", FOLDER / f"{split}.tsv"
    fix = f"git checkout -- datasets/form_lines/{split}.png datasets/form_lines/{split}.tsv"
    try:
        with Image.open(image_path) as image:
            column_HW = np.asarray(image)
        table = table_path.read_text(encoding="utf-8")
    except (OSError, SyntaxError, UnicodeDecodeError) as error:  # Pillow raises SyntaxError for a broken PNG chunk
        raise InputError(f"form lines unreadable: {error}", fix=fix) from error
    num_lines = len(column_HW) // LINE_HEIGHT
    images_NHW = column_HW[: num_lines * LINE_HEIGHT].reshape(num_lines, LINE_HEIGHT, -1)
    if digest(images_NHW, table) != json.loads((FOLDER / "sums.json").read_text())["files"][split]:
        raise InputError(f"form lines changed: {image_path} and {table_path.name} do not match their SHA-256", fix=fix)
    return images_NHW, table
