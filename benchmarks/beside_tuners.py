"""`bench search` beside the tuners that keep an accuracy: NNCF's accuracy control, and Neural Compressor's tuning.

Each tuner gets the same export, the same calibration samples, and for its evaluations the tuning samples of the search,
with the task's own metric. It runs in an environment of its own. What it makes becomes a cell of the task, by a variant
that copies the file, and is measured side by side with the winner of the search and judged by the same test split.

For each task the script prints, for each tuner: the winner's latency over that of the tuner's model, both losses on all
held-out samples with their bounds, and how often each evaluated the metric. It fails where the search is not better in
2 of 3 tasks of which a tuner made a model.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.api import Task, loss_units
from bench.api.cell import Cell
from bench.api.loss_units import DB, SHARE, AllowedLoss
from bench.api.names import PluginName, Role, TaskName
from bench.measure.limits import Limits
from bench.pipeline import prepare
from bench.plugins import catalog
from bench.plugins.engines.archive import pack
from bench.plugins.engines.calibration import num_calibration
from bench.records import folder
from bench.records.rows import Row

BENCH = (sys.executable, "-P", "-c", "from bench.cli.main import main; main()")
HERE = Path(__file__).resolve().parent
TASKS = ("crnn", "albert", "super_resolution")
ALLOWED = AllowedLoss()
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
    is_whole = home / "whole"
    if not is_whole.exists():
        base = sys.executable if tuner.python is None else pythons.get(tuner.python, f"python{tuner.python}")
        subprocess.run([base, "-m", "venv", "--clear", home], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *tuner.packages], check=True)
        is_whole.touch()
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
    for old in (target, made):
        old.unlink(missing_ok=True)
    model = _unpacked(artifact, made.parent / "source") if tuner.runtime == "openvino" else artifact
    unit = task.metric_loss_unit
    limit = (f"{ALLOWED.of(unit):g}", "absolute" if unit == DB else "relative")
    command: list[str | Path] = [python, HERE / "tuners" / f"{name}.py", model, data, made, *limit]
    began_s, asked_about = time.monotonic(), 0
    log = made.parent / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(  # in a folder of its own: Neural Compressor writes a workspace where it runs
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=made.parent
        ) as process,
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
    failed: dict[str, list[str]] = {name: [] for name in TUNERS}
    for task_name in given.tasks:
        (variants / "tuned.py").unlink(missing_ok=True)  # no part of the fixed matrix
        drop = ALLOWED.option(SHARE, DB)
        done = bench(
            place, "search", task_name, "--max-metric-drop", drop, "--budget", given.budget, "--results", results
        )
        print(done.stdout, flush=True)
        answer = _answer(done.stdout)
        (variants / "tuned.py").write_text(VARIANT.format(options=tuple(TUNERS)))
        for name, tuner in TUNERS.items():
            told = tune(name, catalog.task(task_name), environment(name, place, pythons), place)
            if told["failed"]:
                print(f"{task_name}, {name}: {told}", flush=True)
                failed[name].append(task_name)
                continue
            cells = (answer, dataclasses.replace(tuner.base(task_name), chain=(PluginName("tuned", option=name),)))
            confirming = TaskName(task_name, Role.CONFIRMATION)
            held_out = [dataclasses.replace(cell, task=confirming).path for cell in cells]
            bench(place, "run", *held_out, "--launches", "1", "--results", results)
            paths = [cell.path for cell in cells]
            bench(place, "run", *paths, "--launches", "12", "--budget", "90s", "--results", results)
            wins[name].append(_is_better(place / "results", task_name, name, paths, held_out, told))
    for name, each in wins.items():
        gave_up = f"; it made nothing of {', '.join(failed[name])}" if failed[name] else ""
        print(f"{name}: the search is better in {sum(each)} of {len(each)}{gave_up}")
    return int(any(sum(each) < 2 / 3 * len(each) for each in wins.values()))


def _answer(text: str) -> Cell:
    """The cell that a search ends with: its winner, or the best of the fixed matrix where nothing beats it."""
    found = re.search(r"^(\S+)\nbeats |^Nothing (?:was shown to beat|beats) (\S+):", text, re.MULTILINE)
    if found is None:
        raise SystemExit("the search found no deployment that keeps the metric")
    return Cell.from_path(found[1] or found[2])


def _is_better(
    results: Path, task: str, name: str, paths: Sequence[str], held_out: Sequence[str], told: Mapping[str, Any]
) -> bool:
    """Print a comparison; True where the search's cell keeps the metric, and is faster or the tuner's does not.

    Args:
        paths: the cells of the search and of the tuner.
        held_out: the same cells on all held-out samples.
    """
    stored = folder.read(results)
    rows = {row.cell: row for row in stored.rows}
    between = stored.measurements.between(*paths)
    finalists = len({path for path in stored.records if path.startswith(f"{task}~confirming/")} - {*held_out})
    searches = sum(1 for path in stored.records if path.startswith(f"{task}~tuning/"))
    judged = [rows[path] for path in held_out]
    shown = [
        f"{label} loses {_loss(row.metric_loss, row)} (at most {_loss(row.metric_loss_high, row)})"
        for label, row in zip(("the search", name), judged, strict=True)
    ]
    ratio = None if between is None else between.ratio
    print(f"{task}, {name}: latency of the search's over the tuner's {ratio or 'unknown'}; {'; '.join(shown)}")
    evaluated = f"{told['evaluations']:.1f} evaluations of the metric in {told['seconds']:.0f} s"
    # What a proposal loses on the tuning samples is told with its fidelity, by the same answers.
    few = "at most" if searches + finalists <= told["evaluations"] / 3 else "more than"
    print(
        f"  {evaluated}; the search: {searches} on tuning samples, {finalists} more on all held-out samples, "
        f"{few} a third of the tuner's"
    )
    keeps, tuned_keeps = ((row.metric_loss_high or 0) <= ALLOWED.of(row.metric_loss_unit) for row in judged)
    return keeps and (not tuned_keeps or (ratio is not None and ratio.high < 1))


def _loss(value: float | None, row: Row) -> str:
    return loss_units.text(value or 0, row.metric_loss_unit, digits=3)


if __name__ == "__main__":
    sys.exit(main())
