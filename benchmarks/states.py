"""How far the machine's states move the ratio of two runtimes, by the time between two blocks: variograms.

    python benchmarks/states.py FOLDER

makes FOLDER with ten minutes of blocks of one model on five runtimes, or goes on with it, and prints for each pair of
runtimes the standard deviation of the logarithm of their ratio between two blocks, by the time between these, over the
square root of 2. What launches scatter is the same at all times, so it is the figure of the shortest time. What a
state adds grows with the time, for neighbouring blocks are in one state: the square of the last figure less that of the
first is the variance of the states of both runtimes. Beside each figure is the number of pairs of blocks.

Source: Matheron 1963, doi 10.2113/gsecongeo.58.8.1246 (the semivariance of a difference, by distance).
"""

from __future__ import annotations

import argparse
import collections
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import stored
import sweeps

CELLS = tuple(
    f"crnn/torch/{way}/cpu/b1t1"
    for way in (
        "native/raw/pytorch",
        "torch_onnx/raw/onnxruntime",
        "torch_onnx/raw/onnxruntime_bytes",
        "torch_onnx/raw/onnxruntime_iobinding",
        "torch_onnx/raw/openvino",
    )
)
EDGES_S = (0, 20, 60, 120, 200, 300, 600)
"""Ends of the classes of times between two blocks."""
LEAST_BLOCKS = 10

Ratio = tuple[float, float]
"""When a block ran, in seconds, and the logarithm of the ratio of two runtimes in it."""


def ratios(folder: Path) -> dict[tuple[str, str], list[Ratio]]:
    """The ratios of each two runtimes in the blocks of a folder of results that hold both."""
    levels: dict[tuple[str, str], list[tuple[float, float]]] = collections.defaultdict(list)
    for sweep in stored.sweeps([folder]):
        for request in sweep.observed():
            for seen in request:
                levels[seen.runtime, str(seen.block)].append((seen.time_s, seen.level))
    series: dict[tuple[str, str], list[Ratio]] = collections.defaultdict(list)
    for block in dict.fromkeys(block for _, block in levels):
        runtimes = sorted(runtime for runtime, other in levels if other == block)
        for first, second in itertools.combinations(runtimes, 2):
            means = [statistics.mean(level for _, level in levels[each, block]) for each in (first, second)]
            series[first, second].append((levels[first, block][0][0], means[1] - means[0]))
    return {pair: sorted(own) for pair, own in series.items() if len(own) >= LEAST_BLOCKS}


def variogram(series: Sequence[Ratio]) -> list[tuple[float, int]]:
    """For each class of times between two blocks, the root of the semivariance, and the number of pairs of blocks."""
    squares: Mapping[int, list[float]] = collections.defaultdict(list)
    for (first_s, first), (second_s, second) in itertools.combinations(series, 2):
        place = next((place for place, edge in enumerate(EDGES_S[1:]) if second_s - first_s < edge), None)
        if place is not None:
            squares[place].append((second - first) ** 2 / 2)
    classes = [squares[place] for place in range(len(EDGES_S) - 1)]
    return [(math.sqrt(statistics.mean(own)) if own else math.nan, len(own)) for own in classes]


def main() -> None:
    """Measure, and print a line for each pair of runtimes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the sweep; the same goes on")
    parser.add_argument("--minutes", type=int, default=10)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    more = ("--launches", "400", "--margin", "0.0001%")
    sweep = sweeps.run([*CELLS, *more], arguments.folder / "sweep", budget=f"{arguments.minutes}m")
    ends = [f"to {edge} s" for edge in EDGES_S[1:]]
    print(f"{'standard deviation over the square root of 2':46}", *(f"{end:>15}" for end in ends))
    for (first, second), own in ratios(sweep.results).items():
        figures = [f"{deviation:.2%} ({number})" for deviation, number in variogram(own)]
        name = f"{second} over {first}"
        print(f"{name:46}", *(f"{figure:>15}" for figure in figures))


if __name__ == "__main__":
    main()
