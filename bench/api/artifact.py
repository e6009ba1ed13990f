"""An artifact: a file that a runtime opens, with its format and the facts of its making."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts about an artifact, wherever the file lies.

    Attributes:
        format: name of the file's format, such as `onnx`.
        sha256: SHA-256 of the file's content, in hexadecimal.
        size_bytes: size of the file.
        canonical: a digest that two files share if they are the same graph with the same weights; None for a format
            whose graph is not read, and for a file that stands alone (see `bench.api.plugin.Info`).
        num_params: parameters stored in the file, each counted once; None for a format whose graph is not read.
        repeated: which parameters the file stores more than once; None where there are none, or an earlier version made
            the file.
        operators: the number of nodes of each operator; None for a format whose graph is not read.
        info: facts that the exporter or variant returned, with the seconds taken and the versions used.
    """

    format: str
    sha256: str
    size_bytes: int
    canonical: str | None = None
    num_params: int | None = None
    repeated: str | None = None
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
