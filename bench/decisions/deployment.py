"""A chosen cell as a folder to ship: the artifact, how it was made, and a few lines of Python that run it."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Task, cache, loading
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.measure.limits import Limits
from bench.pipeline import feeding, prepare, provenance, quality, verify
from bench.plugins import catalog
from bench.records.rows import Row
from bench.records.store import Record, write_atomically
from bench.tasks import adopt

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray]

RECIPE, PROGRAM = "deployment.json", "run.py"
PROGRAM_TEXT = '''\
"""{cell}

    from run import predict
    outputs = predict(feeds)

takes and gives arrays by name:

{ports}

Run as a program, it sends the held-out samples through the model and prints what they give; that needs inferometer.
"""

from pathlib import Path

{code}


OUTPUTS = {outputs!r}
FOLDER = Path(__file__).resolve().parent
predict = load(FOLDER / {artifact!r}, OUTPUTS)

if __name__ == "__main__":
    import bench

    print(bench.evaluate_deployment(FOLDER, predict))
'''
HARNESS = """\
import bench


def load(path, outputs):
    return bench.load_deployment(path.parent)"""


def save(folder: Path, row: Row, record: Record, *, request: Mapping[str, Any], limits: Limits) -> list[Path]:
    """Write the files of a cell that was measured.

    Args:
        request: what it was chosen for, to be kept with it.

    Returns:
        The artifact, the recipe and the program.

    Raises:
        InputError: what can be made now is not what was measured.
    """
    cell = record.cell
    task = task_of(record)
    runtime = catalog.runtime(cell.runtime)
    steps = measured_steps(record, limits)
    artifact = steps[-1]
    name = f"model{artifact.path.suffix}"
    recipe = {
        "cell": cell.path,
        "coordinates": dataclasses.asdict(cell),
        "chosen_for": dict(request),
        "task_folder": str(task.folder) if task.folder.is_relative_to(cache.folder()) else None,
        "artifact": {"file": name, "format": artifact.format, "sha256": artifact.sha256, "bytes": artifact.size_bytes},
        "steps": [
            {"step": step, **dict(made.info), "sha256": made.sha256, "size_bytes": made.size_bytes}
            for step, made in zip((cell.exporter, *cell.chain), steps, strict=True)
        ],
        "inputs": [dataclasses.asdict(spec) for spec in task.inputs],
        "outputs": [dataclasses.asdict(spec) for spec in task.outputs],
        "runtime_versions": record.header.versions,
        "inferometer": importlib.metadata.version("inferometer"),
        "machine": record.header.machine,
        "measured": dataclasses.asdict(row),
        "again": f"bench run '{cell.path}'",
    }
    code = runtime.code(provider=cell.provider, threads=cell.threads) or HARNESS
    program = PROGRAM_TEXT.format(
        cell=cell.path,
        ports=_ports(task),
        code=code.strip(),
        outputs=[spec.name for spec in task.outputs],
        artifact=name,
    )
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(artifact.path, folder / name)
    write_atomically(folder / RECIPE, json.dumps(recipe, indent=1, default=str, allow_nan=False) + "\n")
    write_atomically(folder / PROGRAM, program)
    return [folder / name, folder / RECIPE, folder / PROGRAM]


def _ports(task: Task) -> str:
    """A line for each input and output."""
    lines = []
    for kind, specs in (("in", task.inputs), ("out", task.outputs)):
        for spec in specs:
            sizes = ", ".join(ascii(size).strip("'") for size in spec.shape)
            lines.append(f"    {kind:4}{spec.name!a}: {spec.dtype} ({sizes})")
    return "\n".join(lines).replace("\\", "\\\\").replace('"', '\\"')


def task_of(record: Record) -> Task:
    """The task that a record is of, as it was measured.

    Raises:
        InputError: it is not here, or has changed since.
    """
    name = record.cell.task
    if name in loading.find("models"):
        if _is_subject(catalog.task(name), record):
            return catalog.task(name)
    elif (found := adopt.recall(name, lambda task: _is_subject(task, record))) is not None:
        return found
    else:
        raise InputError(f"the model of {name} is not here; `bench run --model` or BENCH_PATH brings it back")
    raise InputError(f"the weights, code or data of {name} have changed since; `bench run {name}` measures them anew")


def measured_steps(record: Record, limits: Limits) -> list[Artifact]:
    """Every step's artifact of a cell that was measured, as `prepare.steps_of` gives them; first ask for its task.

    Raises:
        InputError: what can be made now is not what was measured, or nothing ever was.
        ArtifactError: a step failed; the message names it.
    """
    cell, measured = record.cell, record.header.artifact
    if measured is None:
        reason = f": {record.failure.reason}" if record.failure else ""
        raise InputError(f"there is no artifact of {cell}{reason}")
    steps = prepare.steps_of(cell, limits)
    if (steps[-1].canonical or steps[-1].sha256) != (measured.canonical or measured.sha256):
        raise InputError(f"what is made of {cell} now is not what was measured; `bench run '{cell}'` measures it anew")
    return steps


def _is_subject(task: Task, record: Record) -> bool:
    return record.header.subject[:1] == (provenance.task_digest(task),)


def load(folder: Path) -> Callable[[Arrays], Arrays]:
    """The model of a saved folder, run as it was measured, for runtimes that have no code of their own."""
    recipe = read(folder)
    cell, task = recipe.cell, recipe.task()
    runtime = catalog.runtime(cell.runtime)
    runtime.import_packages()
    session = runtime.open(recipe.artifact, task=task, source=cell.source, provider=cell.provider, threads=cell.threads)
    names = [spec.name for spec in task.outputs]
    return lambda feeds: dict(zip(names, session.run(feeds), strict=True))


def evaluate(folder: Path, predict: Callable[[Arrays], Arrays]) -> str:
    """Send the held-out samples through a model and say its loss and metrics, beside what was measured.

    Raises:
        InputError: the task is not here any more.
        ArtifactError: its outputs are not what the task's are.
    """
    import numpy as np

    recipe = read(folder)
    task = recipe.task()
    names = [spec.name for spec in task.outputs]

    def run(feeds: Arrays) -> Sequence[np.ndarray]:
        outputs = predict(feeds)
        return [outputs[name] for name in names]

    samples = task.samples("test")
    outputs = feeding.run_all(run, task, samples, recipe.cell.batch)
    expected = None
    if samples.targets is None:  # then they are the reference's outputs
        with np.load(verify.reference_of(task, Limits.of(step_s=None, memory_bytes=None)).outputs) as file:
            expected = dict(file)
    judged = quality.judge(task, samples, outputs, expected)
    if judged.metrics is None:
        return f"broken: {judged.reason}"
    lines = [f"loss {_figure(judged.loss)} (measured: {_figure(recipe.loss)})"]
    for name, value in judged.metrics.items():
        beside = f" (measured: {_figure(recipe.metric)})" if name == task.metric_name else ""
        lines.append(f"{name} {_figure(value)}{beside}")
    return "\n".join(lines)


def _figure(value: float | None) -> str:
    """A figure that may be missing: not all samples bring a loss, and some are no finite number."""
    return "unknown" if value is None else f"{value:.6g}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a saved folder says of itself.

    Attributes:
        artifact: the file in the folder.
        place: folder of its task, of a model of one's own.
        loss: as it was measured;
        metric: likewise.
    """

    cell: Cell
    artifact: Path
    format: str
    sha256: str
    place: str | None
    loss: float | None
    metric: float | None

    def task(self) -> Task:
        """Its task. One of a model of one's own is looked for in the cache: no folder that a file names is loaded.

        Raises:
            InputError: it is not here any more.
        """
        name = self.cell.task
        if name in loading.find("models"):
            return catalog.task(name)
        if (found := adopt.recall(name, lambda task: str(task.folder) == self.place)) is None:
            raise InputError(
                f"the model of {name} is not here any more; `bench run --model` or BENCH_PATH brings it back"
            )
        return found


def read(folder: Path) -> Recipe:
    """What `save` wrote of a folder.

    Raises:
        InputError: it is something else.
    """
    path = folder / RECIPE
    try:
        said = json.loads(path.read_text())
        stored, measured = said["artifact"], said["measured"]
        if Path(stored["file"]).name != stored["file"]:
            raise ValueError(f"{stored['file']!r} is no name of a file")
        figures = {key: None if measured[key] is None else float(measured[key]) for key in ("loss", "metric")}
        return Recipe(
            cell=Cell.from_path(said["cell"]),
            artifact=(folder / stored["file"]).resolve(),
            format=str(stored["format"]),
            sha256=str(stored["sha256"]),
            place=said["task_folder"],
            **figures,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InputError) as error:
        raise InputError(f"{path} is not what `bench pick` wrote: {error!r}") from error
