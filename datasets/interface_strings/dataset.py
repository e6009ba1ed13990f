"""Interface strings in 36 languages: the translations that come with the Django web framework, and further ones.

`load` reads the three committed files, one string a line; `make.py` makes them again from the wheels of Django and
Wagtail. README.md says how, and under which licences.
"""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

from bench.api.errors import InputError

FOLDER = Path(__file__).parent

LANGUAGES = {
    "bg": "Bulgarian",
    "ca": "Catalan",
    "cs": "Czech",
    "cy": "Welsh",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "eo": "Esperanto",
    "es": "Spanish",
    "et": "Estonian",
    "eu": "Basque",
    "fi": "Finnish",
    "fr": "French",
    "ga": "Irish",
    "gl": "Galician",
    "hr": "Croatian",
    "hu": "Hungarian",
    "id": "Indonesian",
    "is": "Icelandic",
    "it": "Italian",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "mk": "Macedonian",
    "nb": "Norwegian Bokmål",
    "nl": "Dutch",
    "pl": "Polish",
    "pt_BR": "Brazilian Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sq": "Albanian",
    "sv": "Swedish",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
}
"""English names by Django's code, in the order of the class numbers."""

SHA256 = {
    "train": "f1e57dec3b0c28603508c63c0392ac455a6865ef8b494cc452b5cfb847c21a98",
    "test": "0acaebec122eb87b88faafed099e6480b2cc72baa4aadbc0620b2591351ee44f",
    "further": "f3e2f4a5b791c4c925f24cda593052d9920b6f51d13f16a00d6e198418085bf6",
}
"""Of each committed file."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class String:
    """One translation.

    Attributes:
        language: a key of `LANGUAGES`.
        message: eight hexadecimal digits that all translations of one English message share.
        text: one line, without placeholders and tags.
    """

    language: str
    message: str
    text: str


def load(split: str) -> list[String]:
    """The strings of a split, by language, always in the same order.

    Args:
        split: `train`, `test` or `further`; no message is in two of them.

    Raises:
        InputError: there is no such split, or its file is missing or is not the one that was committed.
    """
    if split not in SHA256:
        raise InputError(f"interface_strings have no split named {split!r}; there are: {', '.join(SHA256)}")
    path = FOLDER / f"{split}.tsv"
    fix = f"git checkout -- datasets/interface_strings/{split}.tsv"
    if not path.is_file():
        raise InputError(f"interface strings missing: {path}", fix=fix)
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256[split]:
        raise InputError(f"interface strings changed: {path} does not match its SHA-256", fix=fix)
    rows = [line.split("\t") for line in content.decode().splitlines()]
    return [String(language=language, message=message, text=text) for language, message, text in rows]


def letters(text: str) -> str:
    """The letters of a text alone, casefolded: two texts with the same letters count as one string."""
    return "".join(char for char in text.casefold() if char.isalpha())
