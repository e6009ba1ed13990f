"""Whether cells that run a part of the held-out split have the metrics of the whole split.

Takes two folders of results of one machine: of a sweep, and of the same sweep with `--whole-split`. A cell that runs in
float32, without a step that loses anything, must have the same metrics in both, in all digits. Cells whose metrics
differ are printed with both. The script ends with 1 where a cell differs that must not, or where no cell ran a part.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import instrument

from bench.api.cell import Cell
from bench.pipeline import rounding
from bench.records import folder
from bench.records.lines import Quality

PRECISION = "float32"


def qualities(results: Path) -> Mapping[str, Quality]:
    """The quality of each cell of a folder of results, by the cell's path."""
    known = folder.read(results).records
    return {path: record.quality for path, record in known.items() if record.quality is not None}


def must_agree(path: str, quality: Quality) -> bool:
    """Whether a cell computes in float32 and has no step that may change its answers by more than rounding does."""
    return quality.precision == PRECISION and rounding.claims_nothing_lost(Cell.from_path(path))


def main() -> None:
    """Compare the two sweeps and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", type=Path, help="results of a sweep")
    parser.add_argument("whole", type=Path, help="results of the same sweep with --whole-split")
    arguments = parser.parse_args()
    parts, whole = qualities(arguments.parts), qualities(arguments.whole)
    failures, num_equal, num_parts = [], 0, 0
    for path in sorted(parts.keys() & whole.keys()):
        one, other = parts[path], whole[path]
        num_parts += not one.is_whole
        if one.metrics == other.metrics:
            num_equal += 1
            continue
        line = f"{path}: {dict(one.metrics or {})} by {one.num_samples} samples and {dict(other.metrics or {})} by all"
        print(f"{line}; {one.fidelity}, {other.precision}")
        if must_agree(path, other):
            failures.append(path)
    num_both = len(parts.keys() & whole.keys())
    print(f"{num_both} cells, {num_parts} by a part of the split; the metrics of {num_equal} are equal")
    instrument.finish(failures if num_parts else ["no cell ran a part of the split"])


if __name__ == "__main__":
    main()
