"""Whether the layout of memory matters: launches with a fixed, the system's, and a further randomized layout.

What a program's addresses are changes its speed, and a launch has one draw of them (Mytkowicz et al. 2009, doi
10.1145/1508244.1508275; Curtsinger and Berger 2013, doi 10.1145/2451116.2451141). In each block, three launches of each
kind run one program in bursts, in random order: with the kernel's randomization of addresses off and the same
environment, as the system starts programs, and with up to a page of further environment variables, which moves the
stack. Printed are the spread of the launches of each kind, with its standard error, and how far the kinds lie apart.

It is a study with no bound to hold. Were launches of the third kind further apart than those of the second, the harness
would have to randomize more than the system does; were those of the first kind as far apart as the others, the layout
would not matter.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import math
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from bench.api.cell import Cell
from bench.measure.clock import BurstPlan
from bench.measure.limits import Limits
from bench.measure.process import Child
from bench.measure.session import Worker
from bench.pipeline import opening, operations, prepare
from bench.plugins import catalog

PROGRAMS = (
    "super_resolution/torch/native/raw/pytorch/cpu/b1t1",
    "crnn/torch/torch_onnx/raw/onnxruntime/cpu/b1t1",
    "albert/tf/tflite/raw/litert/cpu/b1t1",
)
FIXED, SYSTEM, RANDOM = "fixed", "as the system", "with environment"
KINDS = (FIXED, SYSTEM, RANDOM)
LAUNCHES = 3
"""Launches of each kind in a block."""
MOST_BYTES = 4096
ADDR_NO_RANDOMIZE = 0x0040000
LIMITS = Limits()


@contextmanager
def layout(kind: str) -> Iterator[dict[str, str]]:
    """Programs that are started within have a layout of this kind; gives the environment variables for them."""
    libc = ctypes.CDLL(None)
    before = libc.personality(0xFFFFFFFF)
    if kind == FIXED and libc.personality(before | ADDR_NO_RANDOMIZE) == -1:
        raise SystemExit("this system does not let a program switch the randomization of addresses off")
    try:
        yield {"PADDING": "x" * random.randrange(MOST_BYTES)} if kind == RANDOM else {}
    finally:
        libc.personality(before)


def block(cell: Cell, passes: int) -> dict[str, np.ndarray]:
    """The levels of the launches of one block, by kind: the median over the passes, about that of each pass."""
    artifact, inputs = prepare.artifact_of(cell, LIMITS), str(prepare.inputs_of(catalog.task(cell.task), LIMITS))
    request = opening.arguments(cell, artifact.path)
    seats: list[tuple[str, Child]] = []
    with ExitStack() as workers:
        for kind in random.sample(KINDS * LAUNCHES, len(KINDS) * LAUNCHES):
            with layout(kind) as environment:
                variables = {**opening.environment(cell), **environment}
                child = workers.enter_context(Child(environment=variables, memory_bytes=LIMITS.memory_bytes))
            child.request(operations.open_session, timeout_s=LIMITS.open_s, **request, inputs=inputs)
            seats.append((kind, child))
        times_SP = np.zeros((len(seats), passes + 1))
        for number in range(passes + 1):
            for index in random.sample(range(len(seats)), len(seats)):
                plan = dataclasses.asdict(BurstPlan(target_ns=40_000_000))
                reply = seats[index][1].request(Worker.burst, timeout_s=LIMITS.burst_s, request=number, **plan)
                times_SP[index, number] = math.log(np.median(reply["steady_ns"]))
    steady_SP = times_SP[:, 1:]  # the first burst warms up
    levels_S = np.median(steady_SP - np.median(steady_SP, axis=0), axis=1)
    return {kind: levels_S[[index for index, (other, _) in enumerate(seats) if other == kind]] for kind in KINDS}


def main() -> None:
    """Run the blocks and print what they show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=8, help="blocks of each program")
    parser.add_argument("--passes", type=int, default=8)
    arguments = parser.parse_args()
    blocks: dict[str, list[dict[str, np.ndarray]]] = {program: [] for program in PROGRAMS}
    for _ in range(arguments.blocks):
        for program in PROGRAMS:
            blocks[program].append(block(Cell.from_path(program), arguments.passes))
    for program, levels in blocks.items():
        print(program)
        for kind in KINDS:
            spread = math.sqrt(np.mean([each[kind].var(ddof=1) for each in levels]))
            error = spread / math.sqrt(2 * (LAUNCHES - 1) * len(levels))
            shifts = np.array([each[kind].mean() - each[SYSTEM].mean() for each in levels])
            shift_error = shifts.std(ddof=1) / math.sqrt(len(shifts))
            print(
                f"  {kind:16} launches differ by {spread:.2%} +- {error:.2%}; "
                f"over {SYSTEM}: {shifts.mean():+.2%} +- {shift_error:.2%}"
            )


if __name__ == "__main__":
    main()
