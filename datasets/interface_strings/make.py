"""Makes the three splits and the licences from the wheels of Django and Wagtail: `python make.py --wheels FOLDER`.

    pip download --no-deps --dest wheels django==5.2.19 wagtail==8.0.1
    python datasets/interface_strings/make.py --wheels wheels

The same wheels give the same bytes. Needs nothing but the standard library and the harness.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import re
import struct
import sys
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.api.errors import InputError
from bench.api.loading import load_module

dataset: Any = load_module(Path(__file__).with_name("dataset.py"))

DJANGO, WAGTAIL = "django-5.2.19", "wagtail-8.0.1"
SHA256 = {
    DJANGO: "5965d974a5218a2b68a11dd1276434707f23886525c23f0598eccedaf4f4ca00",
    WAGTAIL: "1e6ad5c7891a54efce1400e168298b5a2cc343b642cee89c31bf5ec30c98b26c",
}
"""Of the wheel of each release."""
LICENCES = {DJANGO: "LICENSE", WAGTAIL: "LICENSE.wagtail"}
"""Name that the licence of each release has here."""
FIX = "pip download --no-deps --dest wheels django==5.2.19 wagtail==8.0.1"
CATALOGUE = re.compile(r"(?:django/(?:conf|contrib/\w+)|wagtail(?:/\w+)*)/locale/(\w+)/LC_MESSAGES/django(?:js)?\.mo")
NO_TEXT = re.compile(r"%(?:\(\w+\))?\d*(?:\.\d+)?[dfrs]|\{\w*\}|<[^>]+>")
"""Placeholders of Python's two kinds of format, and HTML tags: they are the same in every language."""
MIN_LENGTH = 12
"""In characters; a shorter string is often a word that several languages share."""
TEST_SHARE = 5
"""One message in so many is for the test split."""
MOST_FURTHER = 400
"""Further strings of a language: about as many as it has for training."""


def read_catalogue(content: bytes) -> Iterator[tuple[list[str], list[str]]]:
    """Pairs of a message's forms (singular, plural) and its translation's, from the bytes of an `.mo` file.

    Source: GNU gettext manual, "The Format of GNU MO Files"; a context ends at an EOT, forms are joined by a NUL.
    """
    magic, _, count, originals, translations = struct.unpack_from("<5I", content)
    if magic != 0x950412DE:
        raise InputError(f"not a little-endian .mo file: it begins with {content[:4].hex()}")
    for at in range(count):
        texts = []
        for table in (originals, translations):
            length, start = struct.unpack_from("<2I", content, table + 8 * at)
            texts.append(content[start : start + length].decode())
        yield texts[0].rpartition("\4")[2].split("\0"), texts[1].split("\0")


def clean(text: str) -> str:
    """One line without placeholders and tags."""
    return unicodedata.normalize("NFC", " ".join(NO_TEXT.sub(" ", text).split()))


def read_wheel(wheel: zipfile.ZipFile) -> set[tuple[str, str, str]]:
    """Triples of language, English message and translation, for translations that are long enough and not English."""
    found = set()
    for name in wheel.namelist():
        match = CATALOGUE.fullmatch(name)
        if match is None or match[1] not in dataset.LANGUAGES:
            continue
        for message, translation in read_catalogue(wheel.read(name)):
            english = {clean(form) for form in message}
            texts = {clean(form) for form in translation} - english
            # The first entry of a catalogue is its header, the translation of nothing.
            found |= {(match[1], message[0], text) for text in texts if message[0] and len(text) >= MIN_LENGTH}
    return found


def message_key(message: str) -> str:
    """Eight hexadecimal digits for an English message: the split goes by it, so all its translations stay together."""
    return f"{zlib.crc32(message.encode()):08x}"


def split(found: Iterable[tuple[str, str, str]]) -> dict[str, list[tuple[str, str, str]]]:
    """Sorted rows (language, message key, text) of the two splits.

    A text counts as seen when its letters are the same, whatever their case and what stands between them. One that
    several languages have is left out: it has no right answer. One seen in training is left out of the test split.
    """
    languages = collections.defaultdict(set)
    for language, _, text in found:
        languages[dataset.letters(text)].add(language)
    rows: dict[str, dict[tuple[str, str], tuple[str, str, str]]] = {"train": {}, "test": {}}
    for language, message, text in sorted(found):
        same = dataset.letters(text)
        if len(languages[same]) == 1:
            name = "train" if zlib.crc32(message.encode()) % TEST_SHARE else "test"
            rows[name].setdefault((language, same), (language, message_key(message), text))
    test = [row for same, row in rows["test"].items() if same not in rows["train"]]
    return {"train": sorted(rows["train"].values()), "test": sorted(test)}


def further(found: Iterable[tuple[str, str, str]], known: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Sorted rows (language, message key, text) of strings and messages that the other two splits know nothing of.

    Args:
        found: triples of language, English message and translation.
        known: all such triples that the other splits were chosen from.
    """
    known = set(known)
    messages = {message for _, message, _ in known}
    languages = collections.defaultdict(set)
    for language, _, text in found:
        languages[dataset.letters(text)].add(language)
    seen = {dataset.letters(text) for _, _, text in known}
    rows: dict[str, dict[str, tuple[str, str, str]]] = collections.defaultdict(dict)
    for language, message, text in sorted(found):
        same = dataset.letters(text)
        if message not in messages and same not in seen and len(languages[same]) == 1:
            rows[language].setdefault(same, (language, message_key(message), text))
    return sorted(row for same in rows.values() for row in sorted(same.values(), key=_lot)[:MOST_FURTHER])


def _lot(row: tuple[str, str, str]) -> bytes:
    """What to sort by for an order that looks drawn by lot and is always the same."""
    return hashlib.sha256("\t".join(row).encode()).digest()


def main() -> None:
    """Parse the command line, check the wheels, write the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--wheels", type=Path, required=True, help=f"folder with both wheels, from `{FIX}`")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write to")
    options = parser.parse_args()
    try:
        make(options.wheels, options.out)
    except InputError as error:
        sys.exit(f"error: {error}")


def make(wheels: Path, out: Path) -> None:
    """Write the splits and the licences to a folder.

    Raises:
        InputError: a wheel is missing or is not the one that the data set is made from.
    """
    paths = {release: wheels / f"{release}-py3-none-any.whl" for release in SHA256}
    for release, path in paths.items():
        _check(path, SHA256[release])
    found = {}
    for release, path in paths.items():
        with zipfile.ZipFile(path) as wheel:
            found[release] = read_wheel(wheel)
            (out / LICENCES[release]).write_bytes(wheel.read(f"{release}.dist-info/licenses/LICENSE"))
    splits = {**split(found[DJANGO]), "further": further(found[WAGTAIL], found[DJANGO])}
    for name, rows in splits.items():
        lines = ["\t".join(row) + "\n" for row in rows]
        (out / f"{name}.tsv").write_bytes("".join(lines).encode())


def _check(path: Path, expected: str) -> None:
    if not path.is_file():
        raise InputError(f"no such file: {path}", fix=FIX)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != expected:
        raise InputError(f"{path} has SHA-256 {digest}; {expected} is asked", fix=FIX)


if __name__ == "__main__":
    main()
