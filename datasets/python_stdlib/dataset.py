"""Python source: modules of CPython's standard library, for language models of code.

`load` reads the two committed files; `make.py` makes them again from the library of CPython 3.11.7. README.md says how,
and under which licence.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import lzma
from pathlib import Path

from bench.api.errors import InputError

FOLDER = Path(__file__).parent

SHA256 = {
    "train": "63f33a8138639e1b270d88a5c2c1c0f971031607241d22b0f582e9a9b6872793",
    "test": "dec70b37f1b0f62301cff6fe7d8c174e9470380b826fbac4fc2f3e03378df55e",
}
"""Of each committed file."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Module:
    """A file of the standard library.

    Attributes:
        path: relative to the library's folder, as `asyncio/queues.py`.
        text: its source, whole.
    """

    path: str
    text: str


def load(split: str) -> list[Module]:
    """The modules of a split, by path, always in the same order.

    Args:
        split: `train` or `test`; no module of the top level and no package is in both.

    Raises:
        InputError: there is no such split, or its file is missing or is not the committed one.
    """
    if split not in SHA256:
        raise InputError(f"python_stdlib has no split named {split!r}; there are: {', '.join(SHA256)}")
    path = FOLDER / f"{split}.jsonl.xz"
    fix = f"git checkout -- datasets/python_stdlib/{path.name}"
    if not path.is_file():
        raise InputError(f"Python's standard library missing: {path}", fix=fix)
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256[split]:
        raise InputError(f"Python's standard library changed: {path} does not match its SHA-256", fix=fix)
    return [Module(**json.loads(line)) for line in lzma.decompress(content).decode().splitlines()]
