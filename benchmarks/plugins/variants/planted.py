"""Null artifacts with a known difference in work: none at all, and a planted slowdown."""

import json
from pathlib import Path
from typing import Any

from bench.api import Task, Variant

EXTRA_SHARE = {"none": 0.0, "3percent": 0.03}


class Planted(Variant):
    """Adds a share of the artifact's own work to it."""

    formats = ("null",)
    options = tuple(EXTRA_SHARE)

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> dict[str, Any]:
        model = json.loads(source.read_text())
        model["rounds"] = round(model["rounds"] * (1 + EXTRA_SHARE[option]))
        target.write_text(json.dumps(model))
        return {"rounds": model["rounds"]}
