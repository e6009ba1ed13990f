"""The size of ALBERT: exported with a copy of the weights for each layer, then merged to one copy by `dedup`.

`dedup` must take under 2 s of processor time, reading and writing included, give a file within 3 % of the weights file,
and leave the outputs as they were, bit for bit. Other programs lengthen the time on the wall, which is printed beside.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import instrument
import numpy as np

from bench.api import Task
from bench.api.cell import Cell
from bench.measure.limits import Limits
from bench.pipeline import prepare
from bench.plugins import catalog

CELL = "albert_base/torch/torch_onnx_untied/raw/onnxruntime/cpu/b1t1"
VARIANT = "dedup"
MAX_S = 2.0
MAX_SHARE_OVER_WEIGHTS = 0.03


def main() -> None:
    """Export (or take from the cache), merge several times, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    import onnx  # its import is not what is timed

    cell = Cell.from_path(CELL)
    task, variant = catalog.task(cell.task), catalog.variant(VARIANT).variant
    exported = prepare.artifact_of(cell, Limits.of(step_s=None, memory_bytes=None))
    weights_bytes = task.weights_path.stat().st_size
    print(f"onnx {onnx.__version__}; weights {weights_bytes:,} bytes; exported {exported.size_bytes:,} bytes")
    processor_s, wall_s = [], []
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "merged.onnx"
        for _ in range(arguments.repeats):
            wall, processor = time.perf_counter(), time.process_time()
            info = variant.apply(exported.path, target, option="", task=task)
            processor_s.append(time.process_time() - processor)
            wall_s.append(time.perf_counter() - wall)
        size_bytes = target.stat().st_size
        is_same = outputs_are_equal(exported.path, target, task)
    share = size_bytes / weights_bytes - 1
    print(f"{VARIANT}: {info['num_removed']} merged, {size_bytes:,} bytes, {share:+.2%} of the weights file")
    for name, seconds in {"processor": processor_s, "wall": wall_s}.items():
        print(f"{name}: {' '.join(f'{second:.2f}' for second in seconds)} s, median {np.median(seconds):.2f} s")
    print(f"outputs of the test split: {'equal' if is_same else 'NOT equal'}, bit for bit")
    failures = []
    if np.median(processor_s) >= MAX_S:
        failures.append(f"{VARIANT} takes {MAX_S:g} s or more")
    if share > MAX_SHARE_OVER_WEIGHTS:
        failures.append(f"the file is more than {MAX_SHARE_OVER_WEIGHTS:.0%} larger than the weights")
    if not is_same:
        failures.append("the outputs changed")
    instrument.finish(failures)


def outputs_are_equal(before: Path, after: Path, task: Task) -> bool:
    """Whether two ONNX files give the same bytes for every test sample, on ONNX Runtime as it is by default."""
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    inputs = task.samples("test").inputs
    feeds = {spec.name: inputs[spec.name].astype(spec.dtype, copy=False) for spec in task.inputs}
    names = [spec.name for spec in task.outputs]
    found = []
    for path in (before, after):
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        found.append([output.tobytes() for output in session.run(names, feeds)])
    return found[0] == found[1]


if __name__ == "__main__":
    main()
