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
        figures: of each figure, what it shows, for who cannot see it, and the figure as SVG.
    """

    title: str
    figures: Sequence[tuple[str, bytes]]

    @property
    def images(self) -> list[tuple[str, str]]:
        """Of each figure, what it shows, and the address of an image that is its own content."""
        return [
            (alt, f"data:image/svg+xml;base64,{base64.b64encode(drawing).decode()}") for alt, drawing in self.figures
        ]
