"""A healthy variant of null artifacts: half of the work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.api import Task, Variant


class Fewer(Variant):
    """Halves the rounds."""

    portable = True
    formats = ("null",)

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> dict[str, Any]:
        model = json.loads(source.read_text())
        target.write_text(json.dumps({**model, "rounds": model["rounds"] // 2}))
        return {}
