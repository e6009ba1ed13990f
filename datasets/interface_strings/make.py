"""Makes `train.tsv`, `test.tsv` and `LICENSE` from Django's wheel: `python make.py --wheel PATH`.

    pip download --no-deps django==5.2.19
    python datasets/interface_strings/make.py --wheel django-5.2.19-py3-none-any.whl

The same wheel gives the same bytes. Needs nothing but the standard library and the harness.
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

WHEEL = "django-5.2.19-py3-none-any.whl"
WHEEL_SHA256 = "5965d974a5218a2b68a11dd1276434707f23886525c23f0598eccedaf4f4ca00"
LICENCE = "django-5.2.19.dist-info/licenses/LICENSE"
CATALOGUE = re.compile(r"django/(?:conf|contrib/\w+)/locale/(\w+)/LC_MESSAGES/django(?:js)?\.mo")
NO_TEXT = re.compile(r"%(?:\(\w+\))?\d*(?:\.\d+)?[dfrs]|\{\w*\}|<[^>]+>")
"""Placeholders of Python's two kinds of format, and HTML tags: they are the same in every language."""
MIN_LENGTH = 12
"""In characters; a shorter string is often a word that several languages share."""
TEST_SHARE = 5
"""One message in so many is for the test split."""


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


def main() -> None:
    """Parse the command line, check the wheel, write the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--wheel", type=Path, required=True, help=f"{WHEEL}, from `pip download --no-deps django`")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write to")
    options = parser.parse_args()
    try:
        make(options.wheel, options.out)
    except InputError as error:
        sys.exit(f"error: {error}")


def make(path: Path, out: Path) -> None:
    """Write the three files to a folder.

    Raises:
        InputError: the wheel is missing or is not the one that the data set is made from.
    """
    fix = "pip download --no-deps django==5.2.19"
    if not path.is_file():
        raise InputError(f"no such file: {path}", fix=fix)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != WHEEL_SHA256:
        raise InputError(f"{path} has SHA-256 {digest}; {WHEEL} has {WHEEL_SHA256}", fix=fix)
    with zipfile.ZipFile(path) as wheel:
        for name, rows in split(read_wheel(wheel)).items():
            lines = ["\t".join(row) + "\n" for row in rows]
            (out / f"{name}.tsv").write_bytes("".join(lines).encode())
        (out / "LICENSE").write_bytes(wheel.read(LICENCE))


if __name__ == "__main__":
    main()
