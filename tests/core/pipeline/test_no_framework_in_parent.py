"""The parent process imports no framework, whose memory, threads and start-up time would disturb a measurement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

FRAMEWORKS = (
    "ai_edge_litert",
    "keras",
    "onnx",
    "onnxoptimizer",
    "onnxruntime",
    "onnxscript",
    "onnxsim",
    "openvino",
    "safetensors",
    "sentencepiece",
    "tensorflow",
    "tf2onnx",
    "torch",
    "transformers",
)
SWEEP = """
import json, sys
from pathlib import Path
from bench.pipeline import selection
from bench.measure import machine
from bench.measure.block import Method
from bench.measure.clock import BurstPlan
from bench.measure.goal import Goal
from bench.pipeline.prepare import Limits
from bench.records import assemble
from bench.report import tables
from bench.pipeline.sweep import Sweep
from bench.pipeline.sweep_options import Options
from bench.records.store import Store

class Silent:
    def stage(self, name, total): pass
    def cell(self, cell, outcome): pass
    def measured(self, cells): pass
    def progress(self, progress): pass

tiny = BurstPlan(warm_ns=0, target_ns=0, min_runs=2, max_runs=2)
limits = Limits.of(step_s=60, memory_bytes=2**30)
method = Method(min_passes=3, max_passes=3, max_lost_share=9, burst=tiny, limits=limits)
store = Store(Path("results"), machine.name())
Sweep(store, Options(method=method, goal=Goal(min_launches=1, max_launches=1)), Silent()).run(
    selection.select(["toy/*"], None)
)
rows = assemble.rows(store.current_records())
tables.render(rows, format="md")
print(json.dumps({
    "rows": [(row.status, row.fidelity, row.num_launches) for row in rows],
    "modules": sorted({name.partition(".")[0] for name in sys.modules}),
}))
"""
LIST = """
import sys
from bench.cli import main
try:
    main.main()
except SystemExit as end:
    assert end.code in (0, None), end.code
print("MODULES", *sorted({name.partition(".")[0] for name in sys.modules}))
"""


def python(code: str, folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "BENCH_CACHE": str(folder / "cache"), "BENCH_PATH": ""}
    command = [sys.executable, "-P", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_whole_sweep(tmp_path: Path) -> None:
    found = json.loads(python(SWEEP, tmp_path))
    assert found["rows"]
    assert {tuple(row) for row in found["rows"]} == {("ok", "exact", 2)}  # twice in each block: it is the baseline
    assert not set(found["modules"]) & set(FRAMEWORKS)


def test_list_imports_little(tmp_path: Path) -> None:
    """Nobody should wait for a list: its plugins' files are cheap to load, and nothing is computed."""
    output = python(LIST, tmp_path, "list")
    assert "onnxruntime" in output
    assert "unusable: cannot load" not in output
    modules = set(output.splitlines()[-1].split()[1:])
    assert "bench" in modules
    heavy = {*FRAMEWORKS, "matplotlib", "numpy", "pandas", "PIL", "psutil", "scipy"}
    assert not modules & heavy
