"""Figures without their pixels, for tests that read their texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.report.figures import canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@pytest.fixture
def svg_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No PNG is drawn, of which a test reads nothing; its path is told all the same."""
    write = canvas.save

    def save(figure: Figure, path: Path) -> Path:
        return write(figure, path) if path.suffix == ".svg" else path

    monkeypatch.setattr(canvas, "save", save)
