"""Sweeps that lie far apart in time: does the interval of one sweep hold what the others find?

Ten trials: a plain sweep of a cell, and an hour later sweeps of the same cell with 0 to 20 % more work planted
(`planted.py`), each into a folder of its own; `bench compare` then compares the first with each of the others. Trials
begin 6 minutes after one another, so that the later sweeps follow when all plain ones are over. In between, ten sweeps
of a pair (albert, ONNX Runtime over PyTorch, 2 threads) begin at least 10 minutes after one another.

At least 9 of 10 intervals of the pair must hold the median of its ratios, at most 5 % of the plain comparisons may be
false alarms, and some slowdown must be found in 9 of 10 trials. The script takes two hours, on a machine that does
nothing else; with the same folder it goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import instrument
import planted
import sweeps
from sweeps import Swept

from bench.cli import units

PAIR = "albert/torch/torch_onnx/raw/onnxruntime/cpu/b1t2"
PAIR_EVERY_S = 600.0
PAIR_SWEEPS = 10


def main() -> None:
    """Take the turns, print a line for each, and then the trials."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="folder of the results; the same folder again goes on")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--every", type=units.seconds, default="6m", help="from the start of a trial to the next")
    parser.add_argument("--apart", type=units.seconds, default="60m", help="between the sweeps that are compared")
    parser.add_argument("--pair-budget", default="50s", help="time for measuring the pair, each time")
    parser.add_argument("--planted-budget", default="30s", help="time for measuring in each other sweep")
    parser.add_argument("--busy", type=int, default=0, help="processes that load the machine meanwhile")
    arguments = parser.parse_args()
    budgets = {"pair_budget": arguments.pair_budget, "planted_budget": arguments.planted_budget}
    sweeps.keep(arguments.results, **budgets, every_s=arguments.every, apart_s=arguments.apart, busy=arguments.busy)
    plugins = planted.revisions(arguments.results / "plugins")
    with instrument.busy(arguments.busy):
        truth = planted.true_slowdowns(arguments.results / "same_blocks", "2m")
        sweeps.fill_cache([PAIR], arguments.results / "first")
        for percent, folder in plugins.items():
            sweeps.fill_cache([planted.TODAY], arguments.results / f"first_plus{percent}", plugins=folder)
        pairs: list[Swept] = []
        befores: list[Swept] = []
        for number in range(arguments.trials):
            if befores:
                sweeps.sleep_until(befores[-1].start_s + arguments.every)
            place = arguments.results / f"before{number + 1:02}"
            befores.append(planted.turn(place, {0: plugins[0]}, arguments.planted_budget)[0])
            print(f"{number + 1:3}  plain {befores[-1].row(planted.TODAY).ratio:.4f}", flush=True)
            _pair(pairs, arguments.results, arguments.pair_budget)
        trials = []
        for number, before in enumerate(befores):
            sweeps.sleep_until(before.start_s + arguments.apart)
            place = arguments.results / f"after{number + 1:02}"
            after = planted.turn(place, plugins, arguments.planted_budget)
            trials += planted.trials(before, after)
            found = [f"+{trial.percent} % {trial.text} {trial.verdict}" for trial in trials[-len(after) :]]
            print(f"{number + 1:3}  {'  '.join(found)}", flush=True)
            _pair(pairs, arguments.results, arguments.pair_budget)
        while len(pairs) < PAIR_SWEEPS:
            sweeps.sleep_until(pairs[-1].start_s + PAIR_EVERY_S)
            _pair(pairs, arguments.results, arguments.pair_budget)
    spread = sweeps.spread_of([swept.row(PAIR) for swept in pairs])
    print(f"pair: {spread}")
    failures = planted.summarize(trials, truth)
    if spread.num_holding < planted.ENOUGH * spread.num_sweeps:
        failures.append("too few intervals of the pair hold the median of its ratios")
    instrument.finish(failures)


def _pair(pairs: list[Swept], results: Path, budget: str) -> None:
    """Sweep the pair once more, where a further sweep is due, and print its ratio."""
    if len(pairs) == PAIR_SWEEPS:
        return
    place = results / f"pair{len(pairs) + 1:02}"
    is_over = sweeps.over(place) is not None
    if pairs and not is_over and time.time() < pairs[-1].start_s + PAIR_EVERY_S:
        return
    pairs.append(sweeps.run([PAIR], place, budget=budget))
    print(f"     pair {sweeps.text_of(pairs[-1].row(PAIR))} ({pairs[-1].wall_s:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
