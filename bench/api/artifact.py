"""An artifact: a file that a runtime opens, and how it was made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file with a format, and how it was made.

    Attributes:
        sha256: of the file.
        canonical: equal for two files that are the same graph with the same weights; None where it cannot be told.
        num_params: parameters stored, each once; None where it cannot be told from the file.
        operators: how many nodes of each operator there are; None where it cannot be told.
        info: what its maker wrote down, with the seconds taken and the versions used.
    """

    path: Path
    format: str
    sha256: str
    size_bytes: int
    canonical: str | None
    num_params: int | None
    operators: Mapping[str, int] | None = None
    info: Mapping[str, Any]
