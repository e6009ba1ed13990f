"""A section of the page that a feature adds below the rows of a task."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True, kw_only=True)
class Section:
    """Figures under a title.

    Attributes:
        title: the title.
        alt: what the figures show, for who cannot see them.
        drawings: the figures as SVG.
    """

    title: str
    alt: str
    drawings: Sequence[bytes]

    @property
    def addresses(self) -> list[str]:
        """The figures, each as the address of an image that is its own content."""
        return addresses(self.drawings)


def addresses(drawings: Sequence[bytes]) -> list[str]:
    """Figures as SVG, each as the address of an image that is its own content."""
    return [f"data:image/svg+xml;base64,{base64.b64encode(drawing).decode()}" for drawing in drawings]
