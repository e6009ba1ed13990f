"""The recipe `deployment.json` of a pick, read alone: its artifact is a file of its folder, whatever it names."""

from __future__ import annotations

import json
from collections.abc import Iterator

from bench.decisions import deployment
from fuzz import mutations, workplace
from fuzz.targets.check import PICKED, RECIPE
from fuzz.watch import CODE, BrokenRule, check_printed

INSTRUMENTED = ("bench.decisions.deployment",)
changed, smaller = mutations.of_lines, mutations.smaller_lines


def seeds() -> Iterator[bytes]:
    yield json.dumps(RECIPE).encode()
    program = {"file": "run.py", "sha256": "0"}
    yield json.dumps({**RECIPE, "program": program, "task_folder": "models/toy", "request": {"batch": 1}}).encode()


def check(content: bytes) -> None:
    with workplace.folder() as path:
        place = path / "pick"
        place.mkdir()
        (place / "model.null").write_bytes(PICKED)
        (path / "model.null").write_bytes(PICKED)
        (place / deployment.RECIPE).write_bytes(content)
        recipe = deployment.read(place)
        check_printed(f"{recipe}\n")
        named = recipe.artifact
        if not named.resolve().is_relative_to(place):
            raise BrokenRule(CODE, f"the artifact is {named}")
