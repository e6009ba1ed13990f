"""Whether forked workers do what started workers do: the same files, outputs, precision and placement in every cell.

Every cell of the full sweep that works here is prepared and verified twice, each time with a cache of its own: with
workers that a template forks where it can, and with workers that are started. Compared are the operators of the files,
and of a cell the outputs for the first samples, bit by bit, the fidelity, the precision, the placement and the
parameters. A slow machine runs fewer samples in the time that a cell has: where the two ran different numbers of
samples, their metrics are of different samples, and are not compared. Cells whose outputs differ although both are
right are named: two started workers may differ, too, and with `--twice` both are started.

The answers are kept in FOLDER, so the script goes on where it was stopped. It ends with 1 where a cell differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.api import Task, arrays
from bench.api.cell import Cell
from bench.api.errors import BenchError
from bench.measure import templates
from bench.measure.limits import Limits
from bench.pipeline import feeding, looks, prepare, selection, verify
from bench.pipeline.flow import Prepared
from bench.plugins import catalog

FIELDS = ("fidelity", "precision", "placement", "num_params", "reason", "metrics")
SAMPLES = "samples"
LIMITS = Limits.of(step_s=None, memory_bytes=None)


class NoTemplates(templates.Templates):
    """No worker is forked."""

    def of(self, *_: Any) -> None:
        """See `Templates`."""


def answer(cell: Cell, folder: Path) -> dict[str, Any]:
    """What preparing and verifying a cell brings."""
    try:
        value = prepare.prepared(cell, LIMITS)
        if not isinstance(value, Prepared):
            return {"failed": value.reason}
        reference = verify.reference_of(catalog.task(cell.task), LIMITS)
        path = folder / "outputs.npz"
        path.unlink(missing_ok=True)
        found = verify.verify(cell, value.artifact, reference, LIMITS, save_outputs=path, until=looks.Until())
    except BenchError as error:
        return {"failed": str(error)}
    outputs = arrays.load_arrays(path)
    operators = value.artifact.facts.operators
    told = {name: getattr(found, name) for name in FIELDS}
    return {
        "operators": None if operators is None else dict(operators),
        **json.loads(json.dumps(told, default=str)),
        "outputs": _digest(outputs, catalog.task(cell.task)),
        SAMPLES: len(next(iter(outputs.values()))),
    }


def _digest(outputs: dict[str, np.ndarray], task: Task) -> str:
    """The first samples of all outputs, those that every cell runs; of a whole split they are in its own order."""
    num = len(next(iter(outputs.values())))
    total = task.samples("test").num_samples
    rows = [*range(min(num, looks.FEWEST))] if num < total else feeding.drawn(total)[: looks.FEWEST]
    digest = hashlib.sha256()
    for name in sorted(outputs):
        digest.update(np.ascontiguousarray(outputs[name][rows]).tobytes())
    return digest.hexdigest()


def answers(cells: Sequence[Cell], folder: Path, *, forked: bool) -> dict[str, dict[str, Any]]:
    """The answers of all cells, those of earlier runs included."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["BENCH_CACHE"] = str(folder / "cache")
    templates.OF_THIS_PROCESS.close()
    templates.OF_THIS_PROCESS = templates.Templates() if forked else NoTemplates()
    file = folder / "answers.json"
    known: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
    for number, cell in enumerate(cells, start=1):
        if cell.path not in known:
            known[cell.path] = answer(cell, folder)
            file.write_text(json.dumps(known, indent=1))
            print(f"{folder.name} {number} of {len(cells)}: {cell}", flush=True)
    return known


def main() -> None:
    """Compare the two, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--twice", action="store_true", help="compare started workers with started workers")
    parser.add_argument("globs", nargs="*", help="cells of the full sweep; all by default")
    given = parser.parse_args()
    cells = [cell for cell in selection.select(given.globs, "full") if prepare.skip_reason(cell) is None]
    cells = [cell for cell in cells if cell.threads == 1]  # others are never forked
    started = answers(cells, given.folder / "started", forked=False)
    other = answers(cells, given.folder / ("again" if given.twice else "forked"), forked=not given.twice)
    different = 0
    for cell in cells:
        one, two = started[cell.path], other[cell.path]
        left_out = {SAMPLES} if one.get(SAMPLES) == two.get(SAMPLES) else {SAMPLES, "metrics", "reason"}
        keys = [key for key in {**one, **two} if key not in left_out and one.get(key) != two.get(key)]
        different += bool(keys)
        if keys:
            print(f"{cell}: " + "; ".join(f"{key} {one.get(key)} and {two.get(key)}" for key in keys))
    print(f"{len(cells)} cells, {different} differ")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
