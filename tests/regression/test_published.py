"""The published deployments: the same cells, made again now, are no slower and not wrong. `make check` runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.decisions.check import Outcome
from bench.testing import Guard
from bench.testing import guard as guard

PICKS = Path(__file__).parents[2] / "results" / "reference" / "picks"
FOLDERS = sorted(path.parent for path in PICKS.glob("*/deployment.json"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_published_pick(folder: Path, guard: Guard) -> None:
    outcome: Outcome = guard(pinned=folder)
    assert outcome.passed
