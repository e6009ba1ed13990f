"""The two scripts of a reproducer: one that runs a side, and one that runs both sides by turns and compares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SIDE = '''\
"""Runs one side: prints nanoseconds of inferences as JSON, and writes the outputs to the file that is named."""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

{code}

HERE = Path(__file__).resolve().parent
OUTPUTS = {outputs}


def main():
    run = load(HERE / {model}, OUTPUTS)
    with np.load(HERE / {inputs}) as file:
        feeds = {{name: file[name] for name in file.files}}
    if sys.argv[1:2] == ["--count"]:  # for a tool that counts instructions
        for _ in range(int(sys.argv[2])):
            run(feeds)
        os._exit(0)
    results = run(feeds)
    if len(sys.argv) > 1:
        np.savez(sys.argv[1], *[np.asarray(results[name]) for name in OUTPUTS])
    samples, end = [], time.perf_counter() + 0.2
    while time.perf_counter() < end or len(samples) < 5:  # warms up
        start = time.perf_counter_ns()
        run(feeds)
        samples.append(time.perf_counter_ns() - start)
    samples, end = [], time.perf_counter() + 0.4
    while time.perf_counter() < end or len(samples) < 5:
        start = time.perf_counter_ns()
        run(feeds)
        samples.append(time.perf_counter_ns() - start)
    print(json.dumps(samples))


main()
'''

_COMPARE = '''\
"""Compares both sides: python reproduce.py [PYTHON_A PYTHON_B] runs them by turns, each time in a new process."""

import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 12
T = 2.201  # of Student's t with 11 degrees of freedom, for an interval of 95 %
HERE = Path(__file__).resolve().parent


def run(side, python, target):
    command = [python, str(HERE / f"run_{side}.py"), str(target)]
    samples = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])
    return statistics.median(samples)


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
    logs = []
    with tempfile.TemporaryDirectory() as folder:
        files = {side: Path(folder, f"{side}.npz") for side in "ab"}
        for _ in range(ROUNDS):
            times = {side: run(side, pythons[side], files[side]) for side in random.sample("ab", 2)}
            logs.append(math.log(times["b"] / times["a"]))
        error = largest_error(files)
    half = T * statistics.stdev(logs) / math.sqrt(ROUNDS)
    mean = statistics.mean(logs)
    ratio, low, high = (math.exp(value) for value in (mean, mean - half, mean + half))
    print(f"B over A: {ratio:.3f} [{low:.3f}, {high:.3f}]; largest error {error:.3g} of the largest magnitude")


main()
'''


def of_side(code: str, setting: Mapping[str, Any]) -> str:
    """The script of a side.

    Args:
        code: source that defines `load(path, outputs)`.
        setting: `model` and `inputs`, names of files beside the script, and `outputs`, names of tensors.
    """
    texts = {name: repr(setting[name]) for name in ("model", "inputs", "outputs")}
    return _SIDE.format(code=code.strip(), **texts)


def comparing() -> str:
    """The script that runs both sides by turns."""
    return _COMPARE
