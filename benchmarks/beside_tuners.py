"""`bench search` beside the tuners that keep an accuracy: NNCF's accuracy control, and Neural Compressor's tuning.

Each tuner gets the same export, the same calibration samples, and for its evaluations the tuning samples of the search,
with the task's own metric. It runs in an environment of its own. What it makes becomes a cell of the task, by a variant
that copies the file, and is measured side by side with the winner of the search and judged by the same test split.

For each task the script prints, for each tuner: the winner's latency over that of the tuner's model, both losses with
their bounds, and how often each evaluated the metric. It fails where the search is not better in 2 of 3 tasks.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.api import Task
from bench.api.cell import Cell
from bench.measure.limits import Limits
from bench.pipeline import prepare
from bench.plugins import catalog
from bench.plugins.engines.archive import pack
from bench.plugins.engines.calibration import num_calibration
from bench.records import folder

BENCH = (sys.executable, "-P", "-c", "from bench.cli.main import main; main()")
HERE = Path(__file__).parent
TASKS = ("crnn", "albert", "super_resolution")
MOST_DROP = 0.01
VARIANT = '''
import os
from pathlib import Path

from bench.api import Variant
from bench.api.errors import RefusedError


class Tuned(Variant):
    """The file that a tuner made of an export."""

    formats = ("onnx", "openvino")
    options = {options}
    lossy = True

    def apply(self, source, target, *, option, task):
        file = Path(os.environ["TUNED"], task.name + "-" + option)
        if not file.exists():
            raise RefusedError(option + " made nothing of " + task.name)
        target.write_bytes(file.read_bytes())
        return {{}}
'''


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuner:
    """A peer: the packages of its environment, and the export that it tunes with the runtime that runs the result."""

    packages: tuple[str, ...]
    exporter: str
    runtime: str
    python: str | None = None

    def base(self, task: str) -> Cell:
        """The plain cell of a task that it begins with."""
        return Cell.from_path(f"{task}/torch/{self.exporter}/raw/{self.runtime}/cpu/b1t1")


TUNERS = {
    "nncf_onnx": Tuner(
        packages=("nncf==3.4.0", "onnx==1.19.1", "onnxruntime==1.31.1"), exporter="torch_onnx", runtime="onnxruntime"
    ),
    "nncf_openvino": Tuner(
        packages=("nncf==3.4.0", "openvino==2026.4.1"), exporter="torch_openvino", runtime="openvino"
    ),
    "neural_compressor_onnx": Tuner(
        packages=("neural-compressor==2.6", "onnx==1.16.2", "onnxruntime==1.18.1", "numpy==1.26.4", "setuptools<80"),
        exporter="torch_onnx",
        runtime="onnxruntime",
        python="3.10",
    ),
}


def environment(name: str, place: Path, pythons: Mapping[str, str]) -> Path:
    """The interpreter of a tuner's environment, which is made where it is missing."""
    tuner, home = TUNERS[name], place / "environments" / name
    python = home / "bin" / "python"
    if not python.exists():
        base = sys.executable if tuner.python is None else pythons.get(tuner.python, f"python{tuner.python}")
        subprocess.run([base, "-m", "venv", home], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *tuner.packages], check=True)
    return python


def tune(name: str, task: Task, python: Path, place: Path) -> dict[str, Any]:
    """Run a tuner on a task, with the metric evaluated here; returns evaluations, seconds and what went wrong.

    An evaluation is the metric of as many answers as there are tuning samples, for some tuners ask about each alone.
    """
    tuner, samples = TUNERS[name], task.samples("train")
    number = num_calibration(samples.num_samples)
    data = place / f"{task.name}.npz"
    arrays: dict[str, Any] = {f"calibrate_{key}": array[:number] for key, array in samples.inputs.items()}
    arrays |= {f"tune_{key}": array[number:] for key, array in samples.inputs.items()}
    np.savez(data, **arrays)
    artifact = prepare.artifact_of(tuner.base(task.name), Limits.of(step_s=None, memory_bytes=None)).path
    target = place / "tuned" / f"{task.name}-{name}"
    target.parent.mkdir(exist_ok=True)
    made = place / f"{task.name}-{name}" / ("model.xml" if tuner.runtime == "openvino" else "model.onnx")
    made.parent.mkdir(exist_ok=True)
    model = _unpacked(artifact, made.parent / "source") if tuner.runtime == "openvino" else artifact
    command: list[str | Path] = [python, HERE / "tuners" / f"{name}.py", model, data, made, str(MOST_DROP)]
    began_s, asked_about = time.monotonic(), 0
    log = made.parent / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdin is not None and process.stdout is not None  # noqa: PT018
        for line in process.stdout:
            if asked := re.fullmatch(r"score (.+)\n", line):
                score, num_answers = _score(task, samples.targets, number, Path(asked[1]))
                asked_about += num_answers
                process.stdin.write(f"{score!r}\n")
                process.stdin.flush()
    if process.returncode == 0 and made.exists():
        if tuner.runtime == "openvino":
            pack(made.parent, ("model.xml", "model.bin"), target)
        else:
            target.write_bytes(made.read_bytes())
    said = "" if target.exists() else log.read_text().strip().splitlines()[-1:]
    evaluations = asked_about / (samples.num_samples - number)
    return {"evaluations": evaluations, "seconds": time.monotonic() - began_s, "failed": said}


def _unpacked(artifact: Path, target: Path) -> Path:
    import tarfile

    with tarfile.open(artifact) as archive:
        archive.extractall(target, filter="data")
    return target / "model.xml"


def _score(task: Task, targets: Sequence[Any] | None, first: int, path: Path) -> tuple[float, int]:
    """The task's metric of a tuner's answers, as a score, and their number: of an error rate, 1 minus the rate."""
    assert targets is not None
    with np.load(path) as answers:
        outputs = {spec.name: answers[f"output_{index}"] for index, spec in enumerate(task.outputs)}
        rows = [first + int(row) for row in answers["rows"]]
    metric = task.metrics(outputs, [targets[row] for row in rows])[task.metric_name]
    return 1 - metric if task.is_error_rate else metric, len(rows)


def bench(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the tuners' models as a variant."""
    paths = os.pathsep.join([str(place / "plugins"), str(Path.cwd())])
    more = {"BENCH_PATH": paths, "TUNED": str(place / "tuned")}
    return subprocess.run(
        [*BENCH, *arguments], stdout=subprocess.PIPE, text=True, env={**os.environ, **more}, check=False
    )


def main() -> int:
    """Run the search and the tuners on every task, and print how they compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", type=Path, help="folder for environments, models and results")
    parser.add_argument("--tasks", nargs="*", default=TASKS)
    parser.add_argument("--budget", default="20m", help="of a search")
    parser.add_argument("--python", action="append", default=[], help="an interpreter, as 3.10=/path/to/python")
    given = parser.parse_args()
    place = given.place.resolve()
    variants = place / "plugins" / "variants"
    variants.mkdir(parents=True, exist_ok=True)
    results = str(place / "results")
    pythons = dict(text.split("=", 1) for text in given.python)
    wins: dict[str, list[bool]] = {name: [] for name in TUNERS}
    for task_name in given.tasks:
        (variants / "tuned.py").unlink(missing_ok=True)  # no part of the fixed matrix
        drop = f"{100 * MOST_DROP:g}%"
        done = bench(
            place, "search", task_name, "--max-metric-drop", drop, "--budget", given.budget, "--results", results
        )
        print(done.stdout, flush=True)
        winner = _winner(place / "results" / "picks" / task_name)
        (variants / "tuned.py").write_text(VARIANT.format(options=tuple(TUNERS)))
        for name, tuner in TUNERS.items():
            told = tune(name, catalog.task(task_name), environment(name, place, pythons), place)
            cell = dataclasses.replace(tuner.base(task_name), variant=f"tuned-{name}")
            if winner is None or told["failed"]:
                print(f"{task_name}, {name}: {told}; the search {'has' if winner else 'has no'} winner", flush=True)
                wins[name].append(winner is not None)
                continue
            bench(place, "run", winner, cell.path, "--launches", "12", "--budget", "90s", "--results", results)
            wins[name].append(_told(place / "results", task_name, name, winner, cell.path, told))
    for name, each in wins.items():
        print(f"{name}: the search is better in {sum(each)} of {len(each)}")
    return int(any(sum(each) < 2 / 3 * len(each) for each in wins.values()))


def _winner(pick: Path) -> str | None:
    recipe = pick / "deployment.json"
    return str(json.loads(recipe.read_text())["cell"]) if recipe.exists() else None


def _told(results: Path, task: str, name: str, winner: str, tuned: str, told: Mapping[str, Any]) -> bool:
    """Print a comparison; True where the winner is faster and loses no more than it may."""
    stored = folder.read(results)
    rows = {row.cell: row for row in stored.rows}
    between = stored.measurements.between(winner, tuned)
    finalists = len({path for path in stored.records if path.startswith(f"{task}~confirming/")})
    searches = sum(1 for path in stored.records if path.startswith(f"{task}~tuning/"))
    losses = [
        (100 * (rows[cell].metric_loss or 0), 100 * (rows[cell].metric_loss_high or 0)) for cell in (winner, tuned)
    ]
    shown = [
        f"{label} loses {lost:.2f} % (at most {most:.2f} %)"
        for label, (lost, most) in zip(("the search", name), losses, strict=True)
    ]
    ratio = None if between is None else between.ratio
    print(f"{task}, {name}: latency of the search's winner over the tuner's {ratio or 'unknown'}; {'; '.join(shown)}")
    evaluated = f"{told['evaluations']:.1f} evaluations of the metric in {told['seconds']:.0f} s"
    print(f"  {evaluated}; the search: {finalists} of the metric, {searches} of fidelity")
    is_right = (rows[tuned].metric_loss_high or 0) <= MOST_DROP
    return ratio is not None and (ratio.high < 1 or not is_right)


if __name__ == "__main__":
    sys.exit(main())
