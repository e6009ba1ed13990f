"""Instruction counts of a part under both sides, by valgrind: no load of the machine changes them.

A count stands beside the time, never instead of it: instructions take unlike times, and memory is in none of them.
Valgrind hides AVX-512 and AMX, so a runtime runs other kernels under it on a processor that has them. There the count
is withheld, but for operators that only move data.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from bench.api.errors import InputError
from bench.features.blame import worker_requests
from bench.features.blame.sides import Pair
from bench.measure.limits import Limits
from bench.pipeline import opening

_FEW, _MANY = 1, 3
"""Inferences of the two runs of which the difference is counted: all that a process does besides is in both."""
_HIDDEN = ("avx512", "avx_vnni", "amx")
_MOVES = frozenset(
    {"Concat", "Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape", "Shape", "Slice", "Split", "Squeeze"}
    | {"Tile", "Transpose", "Unsqueeze"}
)
"""Operators that only move data, whose kernels are the same on every processor of a kind."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Witness:
    """Instructions of one inference of a part under both sides."""

    before: int
    after: int

    @property
    def text(self) -> str:
        ratio = self.after / self.before if self.before else float("inf")
        counts = f"{self.before:,} instructions under A and {self.after:,} under B"
        return f"valgrind counts {counts}, {ratio:.3f} times as many"


def processor_flags(path: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The instruction sets of the processor; empty where the system does not tell them."""
    lines = path.read_text().splitlines() if path.exists() else []
    return frozenset(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())


def refusal(operators: Collection[str], flags: Collection[str], threads: int = 1) -> str | None:
    """Why a count would be of other kernels than those that are timed, or cannot be made; None where it can be.

    Args:
        operators: of the part, under both sides.
        flags: instruction sets of the processor.
        threads: number of threads of an inference.
    """
    if shutil.which("valgrind") is None:
        return "no instructions are counted: valgrind is not installed; `apt-get install valgrind` installs it"
    if threads > 1:
        return "no instructions are counted: threads that wait for one another spin as long as the machine lets them"
    hidden = sorted({name for name in _HIDDEN for flag in flags if flag.startswith(name)})
    others = sorted({*operators} - _MOVES)
    if hidden and others:
        return (
            f"no instructions are counted: valgrind hides {' and '.join(hidden)} of this processor, so {others[0]} "
            "would run another kernel"
        )
    return None


def counted(pair: Pair, folder: Path, limits: Limits) -> Witness:
    """Count the instructions of the part in a reproducer's folder under both sides.

    Raises:
        ChildError: a run failed.
        InputError: a count makes no sense.
    """
    counts: Mapping[str, int] = {
        letter: _per_inference(pair, at, folder / f"run_{letter}.py", limits) for at, letter in enumerate("ab")
    }
    return Witness(before=counts["a"], after=counts["b"])


def _per_inference(pair: Pair, at: int, script: Path, limits: Limits) -> int:
    cell = pair.sides[at].cell
    totals = []
    for number in (_FEW, _MANY):
        with opening.worker(cell, memory_bytes=limits.memory_bytes) as child:
            arguments = {"script": str(script.resolve()), "num_inferences": number}
            answer = child.request(worker_requests.count_instructions, timeout_s=limits.verify_s, **arguments)
        totals.append(int(answer["instructions"]))
    if (difference := totals[1] - totals[0]) <= 0:
        raise InputError("no instructions are counted: more inferences took no more of them")
    return difference // (_MANY - _FEW)
