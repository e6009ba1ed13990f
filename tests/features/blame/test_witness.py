"""Instruction counts: when they are withheld, and that they are the same each time."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from bench.cli.commands import app
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


def write_moves(path: Path, *, is_slow: bool) -> Path:
    """A product, its transposition, and a Tanh; the slow one copies the product eight times, and takes one copy."""
    size = 512
    weight = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32) / 16
    ends = {"start": 0, "end": size, "axis": 1}
    tensors = [numpy_helper.from_array(np.array([value]), name) for name, value in ends.items()]
    tensors += [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.array([1, 8]), "repeats")]
    copies = [
        helper.make_node("Tile", ["p", "repeats"], ["wide"], name="copy"),
        helper.make_node("Slice", ["wide", *ends], ["narrow"], name="narrow"),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
        *(copies if is_slow else []),
        helper.make_node("Transpose", ["narrow" if is_slow else "p"], ["t"], name="turn", perm=[1, 0]),
        helper.make_node("Tanh", ["t"], ["y"], name="tanh"),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, size]) for name in ("x", "y")]
    used = tensors if is_slow else [tensor for tensor in tensors if tensor.name == "w"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], used)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@needs_valgrind
@pytest.mark.thorough
@pytest.mark.timing
def test_the_command_counts_the_instructions_of_the_part(tmp_path: Path) -> None:
    """Of operators that move data alone, whose count no processor withholds."""
    plain, slow = (write_moves(tmp_path / f"{name}.onnx", is_slow=name == "slow") for name in ("plain", "slow"))
    options = ["--witness", "--budget", "1m", "--format", "json", "--output", str(tmp_path / "out")]

    result = CliRunner().invoke(app, ["blame", str(plain), str(slow), *options], catch_exceptions=False)

    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["culprits"][0]["nodes"] == [["turn"], ["copy", "narrow", "turn"]]
    pattern = r"valgrind counts ([\d,]+) instructions under A and ([\d,]+) under B, (\S+) times as many"
    shown = next(match for note in answer["notes"] if (match := re.fullmatch(pattern, note)))
    before, after = (int(text.replace(",", "")) for text in shown.groups()[:2])
    assert 512 * 512 / 16 < before < after  # a vector instruction moves 16 numbers at most
    assert float(shown[3]) == pytest.approx(after / before, abs=0.001)
    assert shown[0].replace(",", "") in (Path(answer["reproducer"]) / "issue.md").read_text().replace(",", "")
