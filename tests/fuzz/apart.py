"""Judges the findings of a target in a process that has run nothing: forks of a process with threads may wait forever.

Run as `python -m fuzz.apart TARGET`; prints a line for each finding, as soon as it is judged: its name, and the
violation in JSON. Packages are imported once, before the forks, and run in the forks alone.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from bench.pipeline.opening import OPENVINO_SETTINGS
from fuzz import targets, watch
from fuzz.corpus import findings
from fuzz.watch import Violation

PACKAGES = {
    "boosters": ("lightgbm", "xgboost"),
    "ports": ("ai_edge_litert.interpreter", "bench.plugins.engines.litert", OPENVINO_SETTINGS, "openvino"),
    "pretrained": (
        *("torch", "transformers", "sentence_transformers", "torch.nn.modules.activation"),
        *(f"transformers.models.{kind}.modeling_{kind}" for kind in ("bert", "llama", "vit")),
    ),
}
"""By target, modules that its cases import."""
TESTS = Path(__file__).parents[1]
TIMEOUT_S = 250


@functools.cache
def judged(target: str) -> dict[str, Violation | None]:
    """What became of the findings of a target by their names; one that is missing ended the process of all."""
    paths = os.pathsep.join(filter(None, (str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "fuzz.apart", target]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return {name: Violation(**found) if found else None for name, found in lines}


def main(name: str) -> None:
    """Judge the findings of a target."""
    for module in PACKAGES.get(name, ()):
        if importlib.util.find_spec(module.partition(".")[0]) is not None:
            importlib.import_module(module)
    check = targets.target(name).check
    for finding in findings():
        if finding.target == name:
            found = watch.judge_apart(check, finding.path.read_bytes())
            print(json.dumps([finding.name, dataclasses.asdict(found) if found else None]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
