"""Whether cells that run a part of the held-out split have the metrics of the whole split.

Takes two folders of results of one machine: of a sweep, and of the same sweep with `--whole-split`. Compared are the
metrics of the cells that compute in float32 and whose answers on the part were those of the reference, in all digits;
of the other cells, how far the metric of the part is from that of the whole split. It ends with 1 where one differs that
may not, or where no cell ran a part.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import instrument

from bench.records import folder
from bench.records.lines import Quality
from bench.records.metric_loss import Lost

PRECISION = "float32"


def qualities(results: Path) -> Mapping[str, Quality]:
    """The quality of each cell of a folder of results, by the cell's path."""
    known = folder.read(results).records
    return {path: record.quality for path, record in known.items() if record.quality is not None}


def answers_alike(quality: Quality) -> bool:
    """Whether no sample that ran gained or lost anything beside the reference."""
    return isinstance(quality.lost, Lost) and not quality.lost.points


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
        if other.precision == PRECISION and answers_alike(one):
            failures.append(path)
    num_both = len(parts.keys() & whole.keys())
    print(f"{num_both} cells, {num_parts} by a part of the split; the metrics of {num_equal} are equal")
    instrument.finish(failures if num_parts else ["no cell ran a part of the split"])


if __name__ == "__main__":
    main()
