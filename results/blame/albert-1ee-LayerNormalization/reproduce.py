"""Compares both sides: python reproduce.py [PYTHON_A PYTHON_B] runs them by turns, in short bursts.

A process that runs for long has the caches for itself, and the machine changes its speed meanwhile: so both sides are
open at once, and take turns after some hundredths of a second. Each round has new processes.
"""

import contextlib
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS, TURNS = 8, 25
T = 2.365  # of Student's t with 7 degrees of freedom, for an interval of 95 %
HERE = Path(__file__).resolve().parent


@contextlib.contextmanager
def running(side, python, target):
    """The process of a side."""
    command = [python, str(HERE / f"run_{side}.py"), str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(OSError):  # it has ended
                process.stdin.close()


def median_ns(process):
    """The median of a burst."""
    with contextlib.suppress(OSError):  # it has ended
        process.stdin.write("burst\n")
        process.stdin.flush()
    for line in process.stdout:
        if line.startswith("["):  # a runtime may print lines of its own
            return statistics.median(json.loads(line))
    sys.exit("a side failed")


def log_ratio(pythons, files):
    """The median over turns of B over A as a logarithm, of two new processes."""
    with contextlib.ExitStack() as stack:
        sides = {}
        for side in random.sample("ab", 2):
            sides[side] = stack.enter_context(running(side, pythons[side], files[side]))
            median_ns(sides[side])  # warms up
        logs = []
        for _ in range(TURNS):
            times = {side: median_ns(sides[side]) for side in random.sample("ab", 2)}
            logs.append(math.log(times["b"] / times["a"]))
    return statistics.median(logs)


def largest_error(files):
    import numpy as np

    errors = []
    with np.load(files["a"]) as before, np.load(files["b"]) as after:
        for name in before.files:
            old, new = before[name], after[name]
            if old.dtype.kind not in "fiub" or old.shape != new.shape:
                errors.append(0.0 if np.array_equal(old, new) else math.inf)
                continue
            old, new = old.astype(np.float64), new.astype(np.float64)
            same = (old == new) | (np.isnan(old) & np.isnan(new))
            with np.errstate(invalid="ignore"):
                largest = float(np.where(same, 0, np.abs(new - old)).max(initial=0))
            scale = float(np.abs(old[np.isfinite(old)]).max(initial=0))
            errors.append(0.0 if largest == 0 else largest / scale if scale and math.isfinite(largest) else math.inf)
    return max(errors, default=0.0)


def main():
    pythons = dict(zip("ab", sys.argv[1:3] if len(sys.argv) > 2 else [sys.executable] * 2))
    with tempfile.TemporaryDirectory() as folder:
        files = {side: Path(folder, f"{side}.npz") for side in "ab"}
        logs = [log_ratio(pythons, files) for _ in range(ROUNDS)]
        error = largest_error(files)
    half = T * statistics.stdev(logs) / math.sqrt(ROUNDS)
    mean = statistics.mean(logs)
    ratio, low, high = (math.exp(value) for value in (mean, mean - half, mean + half))
    print(f"B over A: {ratio:.3f} [{low:.3f}, {high:.3f}]; largest error {error:.3g} of the largest magnitude")


main()
