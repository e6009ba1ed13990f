"""Folders of text files as one text: the content of each file under a line with its path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

NAME = re.compile(rb"^=== ([\w.-]{1,40}(?:/[\w.-]{1,40}){0,3})$", re.MULTILINE)
"""The line above the content of a file, with the file's path below the folder."""


def joined(files: Mapping[str, bytes]) -> bytes:
    """A case of these files by path."""
    return b"".join(b"=== %b\n%b\n" % (name.encode(), content) for name, content in files.items())


def parts(content: bytes) -> Iterator[tuple[str, bytes]]:
    """The paths and contents of the files."""
    _, *found = NAME.split(content)
    for name, text in zip(found[::2], found[1::2], strict=True):
        yield name.decode(), text.removeprefix(b"\n").removesuffix(b"\n")


def write(content: bytes, folder: Path) -> None:
    """Write the files into a folder; a path that leads out of it, or through a file, is left out."""
    for name, text in parts(content):
        path = folder / name
        if ".." in path.parts or any(parent.is_file() for parent in path.parents) or path.is_dir():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
