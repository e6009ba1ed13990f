"""An artifact: a file that a runtime opens, and how it was made."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of an artifact, wherever the file lies.

    Attributes:
        format: name of the file's format, such as `onnx`.
        sha256: of the file.
        size_bytes: of the file.
        canonical: equal for two files that are the same graph with the same weights; None where it cannot be told.
        num_params: parameters stored, each once; None where it cannot be told from the file.
        operators: how many nodes of each operator there are; None where it cannot be told.
        info: facts that the exporter or variant returned, with the seconds taken and the versions used.
    """

    format: str
    sha256: str
    size_bytes: int
    canonical: str | None = None
    num_params: int | None = None
    operators: Mapping[str, int] | None = None
    info: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Artifact(Facts):
    """A file with the facts about it."""

    path: Path

    @property
    def facts(self) -> Facts:
        """The facts alone, which are stored."""
        return Facts(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Facts)})
