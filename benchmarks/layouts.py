"""Why each launch is a process of its own: forks of one process that has imported the packages are no new launches.

Importing PyTorch takes a second or two in each worker; forking workers from a process that has imported it would save
that. But what differs from launch to launch, such as where memory lies, is drawn when a program is started, and a fork
keeps it. In each block, four processes that were started and four forks of each of two templates run the
super-resolution network in bursts, in random order. Printed are the spreads of the launches of each kind, and how far
the two templates lie apart beside what independent launches would show. With `--moved`, each fork first reserves a
random amount of address space, as randomized layouts do (Curtsinger and Berger 2013, doi 10.1145/2451116.2451141).

It is a study with no bound to hold: the figures say which design is honest.
"""

from __future__ import annotations

import argparse
import json
import math
import mmap
import os
import random
import select
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
FRESH, FORKS = 4, 4
TEMPLATES = ("a", "b")
BURST_NS = 60_000_000
MOST_PAGES = 1 << 20
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def serve(requests: TextIO, replies: TextIO) -> None:
    """A worker: build the network, then answer each line with the median time of a burst in nanoseconds."""
    import torch

    from models.super_resolution.torch_model import Espcn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, image = Espcn().eval(), torch.rand(1, 1, 74, 74)
    with torch.inference_mode():
        for _ in requests:
            start = time.perf_counter_ns()
            times: list[int] = []
            while len(times) < 3 or time.perf_counter_ns() - start < BURST_NS:
                begin = time.perf_counter_ns()
                model(image)
                times.append(time.perf_counter_ns() - begin)
            replies.write(f"{statistics.median(times[1:])}\n")
            replies.flush()


def template(moved: bool, descriptors: list[int]) -> None:
    """Import PyTorch, then fork a worker for each pair of descriptors."""
    import torch  # noqa: F401

    for reading, writing in zip(descriptors[::2], descriptors[1::2], strict=True):
        if os.fork() == 0:
            for other in set(descriptors) - {reading, writing}:
                os.close(other)
            reserved = (
                mmap.mmap(-1, mmap.PAGESIZE * random.SystemRandom().randrange(1, MOST_PAGES), prot=0) if moved else None
            )
            serve(os.fdopen(reading), os.fdopen(writing, "w"))
            del reserved
            os._exit(0)
    for descriptor in descriptors:
        os.close(descriptor)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def start(num_workers: int, arguments: list[str]) -> tuple[subprocess.Popen[bytes], list[tuple[TextIO, TextIO]]]:
    """Start this script with a pair of pipes for each worker."""
    theirs: list[int] = []
    ours: list[tuple[TextIO, TextIO]] = []
    for _ in range(num_workers):
        (reading, asking), (answering, writing) = os.pipe(), os.pipe()
        theirs += [reading, writing]
        ours.append((os.fdopen(asking, "w"), os.fdopen(answering)))
    command = [sys.executable, "-P", __file__, *arguments, *map(str, theirs)]
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, pass_fds=theirs, env=environment)
    for descriptor in theirs:
        os.close(descriptor)
    return process, ours


def block(moved: bool, passes: int) -> dict[str, np.ndarray]:
    """The levels of the launches of one block, by kind: the median over the passes, about that of each pass."""
    kinds = [*(("fresh", 1) for _ in range(FRESH)), *((name, FORKS) for name in TEMPLATES)]
    processes, seats = [], []
    for kind, num_workers in kinds:
        role = ["fresh"] if kind == "fresh" else ["moved" if moved else "forked"]
        process, pipes = start(num_workers, ["--as", *role])
        processes.append(process)
        seats += [(kind, *pair) for pair in pipes]
    times_SP = np.zeros((len(seats), passes + 1))
    for number in range(passes + 1):
        for index in random.sample(range(len(seats)), len(seats)):
            _, asking, answering = seats[index]
            asking.write("burst\n")
            asking.flush()
            select.select([answering], [], [])
            times_SP[index, number] = math.log(float(answering.readline()))
    for _, asking, _ in seats:
        asking.close()
    for process in processes:
        process.wait()
    steady_SP = times_SP[:, 1:]  # the first burst warms up
    levels_S = np.median(steady_SP - np.median(steady_SP, axis=0), axis=1)
    return {
        kind: levels_S[[index for index, (other, *_) in enumerate(seats) if other == kind]]
        for kind in ("fresh", *TEMPLATES)
    }


def main() -> None:
    """Run the blocks and print what they show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--passes", type=int, default=6)
    parser.add_argument("--moved", action="store_true", help="move each fork's mappings by a random number of pages")
    parser.add_argument("--as", dest="role", help=argparse.SUPPRESS)
    parser.add_argument("descriptors", type=int, nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role == "fresh":
        reading, writing = arguments.descriptors
        return serve(os.fdopen(reading), os.fdopen(writing, "w"))
    if arguments.role:
        return template(arguments.role == "moved", arguments.descriptors)
    found = []
    for number in range(arguments.blocks):
        found.append(block(arguments.moved, arguments.passes))
        spreads = {kind: f"{levels.std(ddof=1):.4f}" for kind, levels in found[-1].items()}
        print(f"{number + 1:3}  standard deviations {json.dumps(spreads)}", flush=True)
    fresh = math.sqrt(np.mean([each["fresh"].var(ddof=1) for each in found]))
    within = np.mean([each[name].var(ddof=1) for each in found for name in TEMPLATES])
    between = np.mean([(each["a"].mean() - each["b"].mean()) ** 2 / 2 for each in found])
    over = [np.mean([each[name].mean() for name in TEMPLATES]) - each["fresh"].mean() for each in found]
    print(f"started processes differ by {fresh:.2%}, forks of one template by {math.sqrt(within):.2%}")
    ratio = math.sqrt(between) / (fresh / math.sqrt(FORKS))
    print(f"means of templates differ {ratio:.1f} times as much as those of independent launches would")
    print(f"forks over started processes: {np.mean(over):+.2%} +- {np.std(over, ddof=1) / math.sqrt(len(over)):.2%}")
    return None


if __name__ == "__main__":
    main()
