"""The findings that are kept: small files that broke a rule once, and what each of them must give."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
EXPECTED = CORPUS / "expected.toml"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One file of the corpus.

    Attributes:
        target: the target that reads the file.
        path: the file.
        broke: the rule that it broke, where, and with which exception.
        open: why it still breaks it; None where every rule holds.
    """

    target: str
    path: Path
    broke: str
    open: str | None = None

    @property
    def name(self) -> str:
        return f"{self.target}/{self.path.name}"


def findings() -> Iterator[Finding]:
    """Every finding, in the order of `expected.toml`."""
    for target, files in tomllib.loads(EXPECTED.read_text(encoding="utf-8")).items():
        for name, fields in files.items():
            yield Finding(target=target, path=CORPUS / target / name, **fields)
