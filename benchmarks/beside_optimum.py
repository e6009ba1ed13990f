"""Beside optimum-benchmark 0.6.0: what two rows with a ratio cost, and how far the ratio spreads over repeats.

Both harnesses measure the same ALBERT, PyTorch eager and ONNX Runtime on one exported file, with 2 threads, in turn, so
that both see the same minutes. Ours is `bench run` with its artifacts in the cache, verified rows included. The other
measures each row with the defaults of its inference scenario (a process of its own, 10 s of inferences), in one command
for both rows, on random tokens of the same shape; its ratio is that of its median latencies.

It has an environment of its own under `build/`, because it needs transformers 4. Its ONNX Runtime backend imports
optimum 1.27 at the latest, and optimum 1.27 imports private names that torch 2.13 has moved: `peers/optimum_rows.py`
says where to. Nothing that is timed depends on that, for the backend is given the exported file.

Our command must not take longer than the other (medians), and our ratios must spread (sd/mean) by at most 2 %.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import instrument
import sweeps

from bench.api.cell import Cell
from bench.measure.limits import Limits
from bench.pipeline import prepare
from bench.plugins import catalog

PACKAGES = (
    "optimum-benchmark==0.6.0",
    "optimum==1.27.0",
    "transformers==4.57.6",
    "onnxruntime==1.31.1",
    "onnx==1.23.2",
    "torch==2.13.0",
)
ENVIRONMENT = sweeps.TOP / "build" / "optimum-benchmark"
PEERS = Path(instrument.__file__).parent / "peers"
CELL = "albert/torch/torch_onnx/raw/onnxruntime/cpu/b1t2"
OFFLINE = {"HF_HUB_OFFLINE": "1", "LOG_TO_FILE": "0"}
MAX_SPREAD = 0.02


def main() -> None:
    """Measure with both harnesses in turn, and print a line for each repeat."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="folder of the results; the same folder again goes on")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--budget", default="20s", help="time for measuring in each of our runs")
    parser.add_argument("--busy", type=int, default=0, help="processes that load the machine meanwhile")
    arguments = parser.parse_args()
    sweeps.keep(arguments.results, budget=arguments.budget, busy=arguments.busy)
    python, model = environment(), export(arguments.results / "model")
    sweeps.fill_cache([CELL], arguments.results / "first")
    _output([python, PEERS / "same_outputs.py", model, num_tokens()])
    figures: dict[str, list[tuple[float, float]]] = {"bench": [], "optimum-benchmark": []}
    with instrument.busy(arguments.busy):
        for repeat in range(arguments.repeats):
            place = arguments.results / f"repeat{repeat + 1:02}"
            figures["optimum-benchmark"].append(theirs(place / "optimum.json", python, model))
            swept = sweeps.run([CELL], place / "bench", budget=arguments.budget)
            figures["bench"].append((swept.row(CELL).ratio or 0.0, swept.wall_s))
            line = [f"{name} {found[-1][0]:.4f} ({found[-1][1]:.0f} s)" for name, found in figures.items()]
            print(f"{repeat + 1:3}  {'  '.join(line)}", flush=True)
    walls_s, spreads = {}, {}
    for name, found in figures.items():
        ratios = [ratio for ratio, _ in found]
        walls_s[name] = statistics.median(wall_s for _, wall_s in found)
        spreads[name] = statistics.stdev(ratios) / statistics.mean(ratios) if len(ratios) > 1 else math.nan
        print(
            f"{name}: ratio {min(ratios):.4f} to {max(ratios):.4f}, spread (sd/mean) {spreads[name]:.2%}, "
            f"median wall {walls_s[name]:.1f} s"
        )
    failures = []
    if walls_s["bench"] > walls_s["optimum-benchmark"]:
        failures.append("bench takes longer")
    if not spreads["bench"] <= MAX_SPREAD:  # NaN of one repeat is not enough
        failures.append("the ratios of bench spread too far")
    instrument.finish(failures)


def environment() -> Path:
    """The Python of optimum-benchmark's environment, which is made if it is not there."""
    python, ready = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "packages.json"
    if not ready.is_file() or json.loads(ready.read_text()) != list(PACKAGES):
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        _output([sys.executable, "-m", "venv", ENVIRONMENT])
        _output([python, "-m", "pip", "install", "--quiet", *PACKAGES])
        ready.write_text(json.dumps(PACKAGES))
    return python


def export(folder: Path) -> Path:
    """A folder as transformers and optimum have it: our weights and configuration, and the file that the cell runs."""
    folder.mkdir(parents=True, exist_ok=True)
    task = catalog.task("albert").folder
    shutil.copyfile(task / "config.json", folder / "config.json")
    shutil.copyfile(task / "weights.safetensors", folder / "model.safetensors")
    shutil.copyfile(prepare.artifact_of(Cell.from_path(CELL), Limits()).path, folder / "model.onnx")
    return folder.resolve()


def num_tokens() -> int:
    """The length of the samples that bench times."""
    return int(catalog.task("albert").samples("test").inputs["input_ids"].shape[1])


def theirs(over: Path, python: Path, model: Path) -> tuple[float, float]:
    """The ratio by optimum-benchmark and the seconds that its command took, from this file or measured into it."""
    if not over.is_file():
        over.parent.mkdir(parents=True, exist_ok=True)
        cell, tokens = Cell.from_path(CELL), num_tokens()
        begin = time.monotonic()
        printed = _output([python, PEERS / "optimum_rows.py", model, cell.threads, cell.batch, tokens])
        wall_s = time.monotonic() - begin
        over.write_text(json.dumps({"p50_s": json.loads(printed.splitlines()[-1]), "wall_s": wall_s}))
    found = json.loads(over.read_text())
    return found["p50_s"]["onnxruntime"] / found["p50_s"]["pytorch"], found["wall_s"]


def _output(command: Sequence[object]) -> str:
    """The standard output of a command, which must succeed."""
    offline = {**os.environ, **OFFLINE}
    done = subprocess.run([str(part) for part in command], env=offline, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"`{' '.join(map(str, command))}` failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
