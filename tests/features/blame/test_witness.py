"""Instruction counts: when they are withheld, and that they are the same each time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.features.blame import witness, worker_requests

AVX2, AVX512 = frozenset({"avx2", "fma"}), frozenset({"avx2", "avx512f", "amx_tile"})
needs_valgrind = pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
SCRIPT = """
import sys
for _ in range(int(sys.argv[2])):
    sum(range({number}))
"""


@needs_valgrind
@pytest.mark.parametrize(
    ("operators", "flags", "withheld"),
    [
        ({"Conv", "Transpose"}, AVX512, True),
        ({"Conv"}, AVX2, False),
        ({"Transpose", "Reshape"}, AVX512, False),
        ({"Conv"}, frozenset(), False),
    ],
)
def test_counts_of_other_kernels_are_withheld(operators: set[str], flags: frozenset[str], withheld: bool) -> None:
    reason = witness.refusal(operators, flags)

    assert (reason is not None) == withheld
    assert not withheld or "valgrind hides avx512" in str(reason) or "valgrind hides amx and avx512" in str(reason)


@needs_valgrind
def test_threads_that_spin_are_not_counted() -> None:
    assert witness.refusal({"Conv"}, AVX2, threads=1) is None
    assert "spin" in str(witness.refusal({"Conv"}, AVX2, threads=2))


def test_without_valgrind_the_reason_says_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness.shutil, "which", lambda name: None)

    assert "apt-get install valgrind" in str(witness.refusal({"Conv"}, AVX2))


def test_flags_are_those_of_the_first_processor(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu avx2\nprocessor\t: 1\nflags\t\t: sse\n")

    assert witness.processor_flags(tmp_path / "cpuinfo") == {"fpu", "avx2"}
    assert witness.processor_flags(tmp_path / "none") == frozenset()


@needs_valgrind
@pytest.mark.thorough
def test_counts_are_nearly_the_same_each_time_and_grow_with_the_work(tmp_path: Path) -> None:
    counts = {}
    for number in (10_000, 20_000):
        script = tmp_path / f"{number}.py"
        script.write_text(SCRIPT.format(number=number))
        runs = [
            worker_requests.count_instructions(script=str(script), num_inferences=each)["instructions"]
            for each in (1, 3, 3)
        ]
        assert runs[1] == pytest.approx(runs[2], rel=1e-4)
        counts[number] = (runs[1] - runs[0]) / 2
    assert counts[20_000] / counts[10_000] == pytest.approx(2, rel=0.05)
