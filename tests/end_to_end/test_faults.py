"""Every fault is a row with its reason, and never the end of a sweep: the real command with plugins that fail for real.

The plugins are in `tests/faults/`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Harness

FAULTS = Path(__file__).parents[1] / "faults"
LIMITS = ("--timeout", "3s", "--memory", "512MiB", "--launches", "1")
RAW = "toy/null/native/raw"
BASELINE = f"{RAW}/null/cpu/b1t1"
HEALTHY = {
    BASELINE: None,
    f"{RAW}/chatty/cpu/b1t1": None,
    "toy/null/native/fewer/null/cpu/b1t1": 0.5,  # of the baseline's work
}
OUT_OF_MEMORY = "out of memory (limit 0.5 GiB)"
FAILED = {
    "toy/null/native/faulty-raise/null/cpu/b1t1": "faulty-raise: RuntimeError: cannot simplify",
    "toy/null/native/faulty-exit/null/cpu/b1t1": "faulty-exit: .../faulty.py, line 25: apply raised SystemExit: 6, ",
    "toy/null/native/faulty-segfault/null/cpu/b1t1": "faulty-segfault: killed by SIGSEGV",
    "toy/null/native/faulty-hang/null/cpu/b1t1": "faulty-hang: no answer within 3 s",
    "toy/null/native/faulty-memory/null/cpu/b1t1": f"faulty-memory: {OUT_OF_MEMORY}",
    "toy/null/native/faulty-nothing/null/cpu/b1t1": "faulty-nothing: ValueError: no artifact was written",
    "toy/null/native/faulty-garbage/null/cpu/b1t1": "artifact.null is not a null artifact",
    f"{RAW}/faulty_open/raise/b1t1": "RuntimeError: cannot open this model",
    f"{RAW}/faulty_open/exit/b1t1": ".../faulty_open.py, line 26: open raised SystemExit: 3, which",
    f"{RAW}/faulty_open/segfault/b1t1": "killed by SIGSEGV",
    f"{RAW}/faulty_open/memory/b1t1": OUT_OF_MEMORY,
    f"{RAW}/faulty_run/raise/b1t1": "RuntimeError: cannot run",
    f"{RAW}/faulty_run/exit/b1t1": "exited with status 4 without an answer",
    f"{RAW}/faulty_run/segfault/b1t1": "killed by SIGSEGV",
    f"{RAW}/faulty_run/hang/b1t1": "no answer within 3 s",
    f"{RAW}/faulty_run/memory/b1t1": OUT_OF_MEMORY,
    f"{RAW}/faulty_run/more/b1t1": "ValueError: 2 outputs; the task has 1: y",
}
TIRED = "RuntimeError: tired (faulty_late.py, line 39)"
LATE = {
    f"{RAW}/faulty_late/raise/b1t1": TIRED,
    f"{RAW}/faulty_late/exit/b1t1": "exited with status 5 without an answer",
    f"{RAW}/faulty_late/segfault/b1t1": "killed by SIGSEGV",
    f"{RAW}/faulty_late/hang/b1t1": "no answer within 3 s",
    f"{RAW}/faulty_late/memory/b1t1": OUT_OF_MEMORY,
}
WORSE = "accuracy is worse than the reference's by 1; at most 0.01 is allowed"
BROKEN = {
    "toy/null/native/faulty-scale3/null/cpu/b1t1": WORSE,
    f"{RAW}/faulty_run/scale3/b1t1": WORSE,
    f"{RAW}/faulty_run/nan/b1t1": (
        "output y holds 16 values that are not finite, of 128; the first, nan in sample 0 at [3], is 0.596982 in the "
        "reference"
    ),
    f"{RAW}/faulty_run/shape/b1t1": "output y has shape (16, 7); the reference has (16, 8)",
}
FLAKY = f"{RAW}/flaky/cpu/b1t1"
OF_EACH_STAGE = {
    *HEALTHY,
    FLAKY,
    "toy/null/native/faulty-raise/null/cpu/b1t1",
    f"{RAW}/faulty_open/segfault/b1t1",
    f"{RAW}/faulty_run/exit/b1t1",
    f"{RAW}/faulty_run/more/b1t1",
    f"{RAW}/faulty_late/raise/b1t1",
    f"{RAW}/faulty_late/segfault/b1t1",
    "toy/null/native/faulty-scale3/null/cpu/b1t1",
    f"{RAW}/faulty_run/nan/b1t1",
}
"""Cells that fail at once, of every stage; the others hang, take much memory, or fail there in another way."""
EVERY = {*HEALTHY, *FAILED, *LATE, *BROKEN, FLAKY}
RATIOS = ("ratio", "ratio_low", "ratio_high", "verdict")


@pytest.fixture
def faulty(harness: Harness) -> Harness:
    harness.quick = False
    harness.environment |= {"BENCH_PATH": str(FAULTS), "BENCH_TEST_FAULT": str(harness.folder / "fault")}
    return harness


def is_timed(row: dict[str, Any]) -> bool:
    return all(
        row[name] is not None and row[name] > 0
        for name in ("latency_p50_ns", "throughput_per_s", "load_ns", "first_inference_ns", "peak_rss_bytes")
    )


def among(cells: set[str], reasons: dict[str, str]) -> list[tuple[str, str]]:
    """The cells that were run, with their reasons; of each kind there are some."""
    found = [(cell, reason) for cell, reason in reasons.items() if cell in cells]
    assert found
    return found


@pytest.mark.parametrize("cells", [OF_EACH_STAGE, pytest.param(EVERY, marks=pytest.mark.thorough)], ids=len)
def test_every_fault_is_a_row(cells: set[str], faulty: Harness) -> None:
    (faulty.folder / "fault").touch()
    faulty.run("run", *sorted(cells), *LIMITS)
    rows = faulty.shown()
    assert set(rows) == cells
    for cell, ratio in HEALTHY.items():
        row = rows[cell]
        assert (row["status"], row["fidelity"], row["reason"]) == ("ok", "exact", None), cell
        assert is_timed(row), cell
        if ratio is not None:
            assert row["ratio"] == pytest.approx(ratio, abs=0.15), cell
    for cell, reason in among(cells, {**FAILED, FLAKY: "RuntimeError: not today"}):
        row = rows[cell]
        assert (row["status"], row["fidelity"]) == ("failed", None), cell
        assert row["reason"].replace("<temporary>/", ".../").startswith(reason), (cell, row["reason"])
        assert [row[name] for name in (*RATIOS, "latency_p50_ns")] == [None] * 5, cell
    for cell, reason in among(cells, LATE):
        row = rows[cell]
        assert (row["status"], row["fidelity"]) == ("failed", "exact"), cell
        assert row["reason"].replace("<temporary>/", ".../").startswith(reason), (cell, row["reason"])
        assert [row[name] for name in (*RATIOS, "latency_p50_ns")] == [None] * 5, cell
    for cell, reason in among(cells, BROKEN):
        row = rows[cell]
        assert (row["status"], row["fidelity"], row["reason"]) == ("ok", "broken", reason), cell
        assert [row[name] for name in (*RATIOS, "latency_p50_ns")] == [None] * 5, cell
    stages = {line["stage"] for line in faulty.lines("failure")}
    assert stages == {"prepare", "verify", "measure"}
    details = [line["detail"] for line in faulty.lines("failure") if line["reason"] == TIRED]
    assert len(details) == 1
    assert "in _fail" in details[0]  # the traceback is kept


def test_failures_are_tried_again_and_success_clears_them(faulty: Harness) -> None:
    fault = faulty.folder / "fault"
    fault.touch()
    faulty.quick = True
    command = ("run", FLAKY, BASELINE, f"{RAW}/faulty_run/raise/b1t1", *LIMITS)
    faulty.here(*command)
    faulty.here(*command, "--strict", code=1)
    reasons = [line["reason"] for line in faulty.lines("failure")]
    cannot, not_today = (
        "RuntimeError: cannot run (faulty_run.py, line 30)",
        "RuntimeError: not today (flaky.py, line 19)",
    )
    assert sorted(reasons) == [cannot] * 2 + [not_today] * 2
    before = faulty.launch_ids()
    fault.unlink()
    faulty.here("run", FLAKY, BASELINE, *LIMITS, "--strict")
    row = faulty.rows()[FLAKY]
    assert (row["status"], row["reason"], row["fidelity"], row["num_launches"]) == ("ok", None, "exact", 1)
    assert is_timed(row)
    assert set(before) < set(faulty.launch_ids())  # nothing was lost


@pytest.mark.thorough
def test_broken_outputs_are_no_success(faulty: Harness) -> None:
    faulty.quick = True
    faulty.here("run", f"{RAW}/faulty_run/nan/b1t1", BASELINE, *LIMITS, "--strict", code=1)
    faulty.here("run", f"{RAW}/faulty_run/nan/b1t1", BASELINE, *LIMITS)


def test_run_that_timed_no_cell_is_no_success(faulty: Harness) -> None:
    faulty.quick = True
    faulty.here("run", f"{RAW}/faulty_run/nan/b1t1", *LIMITS, code=1)
    last = faulty.stderr().splitlines()[-1]
    assert last.startswith("bench: no cell could be timed; 1 of 1 failed with: ")
    assert last.endswith("bench show 'toy/*' --columns cell,reason lists all reasons")


def test_failing_reference_is_the_reason_of_every_cell_of_its_task(faulty: Harness) -> None:
    """Here the weights are damaged, so that not even the task's own cell runs."""
    task = faulty.folder / "models" / "torn"
    task.mkdir(parents=True)
    toy = Path(__file__).parents[2] / "bench" / "plugins" / "models" / "toy" / "task.py"
    (task / "task.py").write_text(toy.read_text())
    (task / "weights.json").write_text("{")
    faulty.quick = True
    faulty.here("run", "torn/*/raw/null/*/b1t1", "torn/null/native/raw/chatty/cpu/b1t1", BASELINE, *LIMITS)
    rows = faulty.rows()
    for cell in ("torn/null/native/raw/null/cpu/b1t1", "torn/null/native/raw/chatty/cpu/b1t1"):
        assert rows[cell]["status"] == "failed"
        assert "artifact.null is not a null artifact" in rows[cell]["reason"]
    assert rows[BASELINE]["status"] == "ok"
    assert is_timed(rows[BASELINE])


def test_baseline_that_fails_while_measured_stops_its_group_with_a_reason(faulty: Harness) -> None:
    """Verified well, so it is the reference; but there is nothing to compare the others with."""
    runtime = faulty.folder / "runtimes" / "null.py"
    runtime.parent.mkdir()
    text = (FAULTS / "runtimes" / "faulty_late.py").read_text()
    text = text.replace('return ("raise", "exit", "segfault", "hang", "memory")', 'return ("cpu",)')
    runtime.write_text(text.replace("default_for = ()", "").replace('self._fault == "raise"', "True"))
    faulty.environment["BENCH_PATH"] = f"{faulty.folder}:{FAULTS}"
    faulty.here("run", BASELINE, f"{RAW}/chatty/cpu/b1t1", *LIMITS, code=1)
    rows = faulty.rows()
    assert (rows[BASELINE]["status"], rows[BASELINE]["reason"]) == ("failed", "RuntimeError: tired (null.py, line 39)")
    other = rows[f"{RAW}/chatty/cpu/b1t1"]
    assert (other["status"], other["reason"]) == ("failed", f"not timed: its baseline {BASELINE} failed")
    assert (other["fidelity"], other["latency_p50_ns"]) == ("exact", None)
    assert faulty.launch_ids() == []
