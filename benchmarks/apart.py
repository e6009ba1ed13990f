"""Sweeps that lie far apart in time: does the interval of one sweep hold what the others find?

Turns begin 10 minutes after one another. Each sweeps a cell with 0 to 20 % more work planted (`planted.py`), and the
first ten also a pair (albert, ONNX Runtime over PyTorch, 2 threads), each sweep into a folder of its own. At the end
`bench compare` compares the plain cell of each turn with the cells of the first turn an hour or more later; 16 turns
make ten trials.

At least 9 of 10 intervals of the pair must hold the median of its ratios, at most 5 % of the plain comparisons may be
false alarms, and some slowdown must be found in 9 of 10 trials. The script takes hours, on a machine that does nothing
else; with the same folder it goes on where it was stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import instrument
import planted
import sweeps
from sweeps import Swept

from bench.cli import units
from bench.records.rows import Row

PAIR = "albert/torch/torch_onnx/raw/onnxruntime/cpu/b1t2"
PAIR_TURNS = 10


def main() -> None:
    """Take the turns, print a line for each, and then the trials."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="folder of the results; the same folder again goes on")
    parser.add_argument("--turns", type=int, default=16)
    parser.add_argument("--every", type=units.seconds, default="10m", help="from the start of a turn to the next")
    parser.add_argument("--apart", type=units.seconds, default="60m", help="between the sweeps that are compared")
    parser.add_argument("--pair-budget", default="50s", help="time for measuring the pair, each turn")
    parser.add_argument("--planted-budget", default="30s", help="time for measuring each slowdown, each turn")
    parser.add_argument("--busy", type=int, default=0, help="processes that load the machine meanwhile")
    arguments = parser.parse_args()
    budgets = {"pair_budget": arguments.pair_budget, "planted_budget": arguments.planted_budget}
    sweeps.keep(arguments.results, **budgets, every_s=arguments.every, busy=arguments.busy)
    plugins = planted.revisions(arguments.results / "plugins")
    with instrument.busy(arguments.busy):
        # These sweeps also fill the cache, so that every turn takes the same time.
        truth = planted.true_slowdowns(arguments.results / "same_blocks", "2m")
        sweeps.run([PAIR], arguments.results / "first", budget="1s")
        planted.turn(arguments.results / "first_planted", plugins, "1s")
        rows: list[Row] = []
        turns: list[dict[int, Swept]] = []
        for number in range(arguments.turns):
            if turns:
                sweeps.sleep_until(turns[-1][0].start_s + arguments.every)
            place = arguments.results / f"turn{number + 1:02}"
            turns.append(planted.turn(place, plugins, arguments.planted_budget))
            last = turns[-1][planted.PERCENTS[-1]]
            line = [f"+{percent} % {swept.row(planted.TODAY).ratio:.4f}" for percent, swept in turns[-1].items()]
            if number < PAIR_TURNS:
                last = sweeps.run([PAIR], place / "pair", budget=arguments.pair_budget)
                rows.append(last.row(PAIR))
                line.append(f"pair {sweeps.text_of(rows[-1])} ({last.wall_s:.0f} s)")
            wall_s = last.start_s + last.wall_s - turns[-1][0].start_s
            print(f"{number + 1:3}  {'  '.join(line)}  (turn {wall_s:.0f} s)", flush=True)
    trials = planted.trials(turns, arguments.apart)
    for trial in trials:
        print(f"+{trial.percent:2} %, against an earlier plain sweep: {trial.text} {trial.verdict}")
    spread = sweeps.spread_of(rows)
    print(f"pair: {spread}")
    failures = planted.summarize(trials, truth) if trials else ["no two turns are far enough apart"]
    if spread.num_holding < planted.ENOUGH * spread.num_sweeps:
        failures.append("too few intervals of the pair hold the median of its ratios")
    instrument.finish(failures)


if __name__ == "__main__":
    main()
