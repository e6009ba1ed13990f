"""False alarms and power: how often identical cells are told apart, and how often a planted 3 % slowdown is found.

Each comparison is a sweep of its own, from fresh processes to a verdict. At most 2 of 40 identical pairs may be called
faster or slower, and at least 38 of 40 slowdowns must be found.
"""

from __future__ import annotations

import argparse
import collections

import instrument

from bench.measure.goal import Goal

SAME = "toy/null/native/planted-none/null/cpu/b1t1"
SLOWER = "toy/null/native/planted-3percent/null/cpu/b1t1"


def main() -> None:
    """Run the comparisons and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--busy", type=int, default=0, help="processes that load the machine meanwhile")
    arguments = parser.parse_args()
    counts = {path: collections.Counter[str]() for path in (SAME, SLOWER)}
    with instrument.busy(arguments.busy):
        for repeat in range(arguments.repeats):
            rows = instrument.compare([SAME, SLOWER], Goal())
            line = []
            for path, name in ((SAME, "identical"), (SLOWER, "3 % slower")):
                row = rows[path]
                counts[path][str(row.verdict)] += 1
                line.append(f"{name} {row.ratio:.4f} [{row.ratio_low:.4f}, {row.ratio_high:.4f}] {row.verdict}")
            print(f"{repeat + 1:3}  {'   '.join(line)}", flush=True)
    alarms = counts[SAME]["faster"] + counts[SAME]["slower"]
    found = counts[SLOWER]["slower"]
    print(f"identical cells: {dict(counts[SAME])}; a winner was called in {alarms} of {arguments.repeats}")
    print(f"3 % slowdown: {dict(counts[SLOWER])}; found in {found} of {arguments.repeats}")
    failures = []
    if alarms > 0.05 * arguments.repeats:
        failures.append("too many false alarms")
    if found < 0.95 * arguments.repeats:
        failures.append("the slowdown was missed too often")
    instrument.finish(failures)


if __name__ == "__main__":
    main()
