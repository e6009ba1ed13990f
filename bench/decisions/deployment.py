"""A deployment: a folder to ship, with the artifact of a cell, the recipe of its making, and a program that runs it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from bench.api import Task, cache, files, loading
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.api.loss_units import DB
from bench.api.names import TaskName
from bench.api.places import without_places
from bench.api.printable import printable
from bench.api.version import version
from bench.decisions import page_files, ports
from bench.decisions.constraints import METRIC
from bench.measure.limits import Limits
from bench.pipeline import prepare, provenance
from bench.plugins import catalog
from bench.records.lines import LONGEST_PATH
from bench.records.rows import Row
from bench.records.store import Record, write_atomically
from bench.tasks import adopt

RECIPE, PROGRAM, ARTIFACT = "deployment.json", "run.py", "model"
"""The names of the files of a pick; that of the artifact ends as its format says."""
_PROGRAM_TEXT = '''\
"""{cell}

    from run import predict
    outputs = predict(feeds)

takes and gives arrays by name:

{ports}

It was measured with {packages}.
Run as a program, it sends the held-out samples through the model and prints what they give; that needs inferometer, and
the task where `bench` finds it.
"""

from pathlib import Path

{code}


OUTPUTS = {outputs!r}
FOLDER = Path(__file__).resolve().parent
predict = load(FOLDER / {artifact!r}, OUTPUTS)

if __name__ == "__main__":
    import bench
    from bench.api.errors import BenchError

    try:
        print(bench.evaluate_deployment(FOLDER, predict))
    except BenchError as error:
        raise SystemExit(f"run.py: {{error}}") from None
'''
_HARNESS = """\
import bench


def load(path, outputs):
    return bench.load_deployment(path.parent)"""


def save(
    folder: Path,
    row: Row,
    record: Record,
    *,
    request: Mapping[str, Any],
    limits: Limits,
    service: Mapping[str, Any] | None = None,
    outcome: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write the deployment of a cell that was measured.

    Args:
        folder: the folder to write to.
        row: the row of the cell.
        record: the record of the cell.
        request: the constraints that the cell was chosen for, which the recipe keeps.
        limits: time and memory of the steps that make the artifact again.
        service: how it is best served, which the recipe keeps, too; None where no plan told.
        outcome: why it is shipped, see `bench.report.outcome.fields`, which the recipe keeps, too; None of a search.

    Returns:
        The artifact, the recipe, the program, and those that run it in a page.

    Raises:
        InputError: the artifact that is made now is not the artifact that was measured, or one of the three paths is
            there and no pick wrote it.
    """
    cell, task = record.cell, task_of(record)
    steps = measured_steps(record, limits)
    artifact = steps[-1]
    name, sizes = f"{ARTIFACT}{artifact.path.suffix}", ports.sizes_of(record, task)
    recipe = {
        "cell": cell.path,
        "coordinates": cell.coordinates,
        "outcome": None if outcome is None else dict(outcome),
        "chosen_for": dict(request),
        "task_folder": _place_of(task),
        "artifact": {"file": name, "format": artifact.format, "sha256": artifact.sha256, "bytes": artifact.size_bytes},
        "steps": [
            {
                "step": str(step),
                **without_places(step_artifact.info),
                "sha256": step_artifact.sha256,
                "size_bytes": step_artifact.size_bytes,
            }
            for step, step_artifact in zip((cell.exporter, *cell.chain), steps, strict=True)
        ],
        "inputs": [dataclasses.asdict(spec) for spec in ports.with_sizes(task.inputs, sizes)],
        "outputs": [dataclasses.asdict(spec) for spec in ports.with_sizes(task.outputs, sizes)],
        "runtime_versions": record.header.versions,
        "inferometer": version(),
        "machine": record.header.machine,
        "measured": dataclasses.asdict(row),
        "service": service,
        "again": f"bench run '{cell.path}'",
    }
    runtime = catalog.runtime(cell.runtime)
    # The code of a runtime runs one inference; a loop around it that generates is the harness's.
    plain = runtime.code(provider=str(cell.provider), threads=cell.threads) if task.request is None else None
    code = plain or _HARNESS
    packages = (
        ", ".join(f"{name} {release}" for name, release in record.header.versions.items() if release) or "no package"
    )
    program = _PROGRAM_TEXT.format(
        cell=cell.path,
        packages=ports.in_docstring(printable(packages)),
        ports=ports.lines(task, sizes),
        code=code.strip(),
        outputs=[spec.name for spec in ports.gives(task)],
        artifact=name,
    )
    digest = hashlib.sha256(program.encode()).hexdigest()
    recipe["program"] = {"file": PROGRAM, "sha256": digest}
    folder.mkdir(parents=True, exist_ok=True)
    before = _replaced(folder, {name: artifact.sha256, PROGRAM: digest})
    outputs = [spec.name for spec in ports.gives(task)]
    page = runtime.page(name, outputs, threads=cell.threads)
    recipe["page"] = page_files.write(folder, page, page_files.digests_of(folder / RECIPE))
    files.copy_whole(artifact.path, folder / name)
    write_atomically(folder / PROGRAM, program)
    # Last, so that the same pick goes on where this one is stopped before.
    write_atomically(folder / RECIPE, json.dumps(recipe, indent=1, default=str, allow_nan=False) + "\n")
    if before is not None:
        before.unlink(missing_ok=True)
    return [folder / name, folder / RECIPE, folder / PROGRAM, *(folder / each for each in page if "/" not in each)]


def _replaced(folder: Path, digests: Mapping[str, str]) -> Path | None:
    """The artifact of an earlier pick that goes because the new one has another name; None where there is none.

    Args:
        folder: the folder that is written to.
        digests: digests of the artifact and the program that are to be written, by their names.

    Raises:
        InputError: a file that would be replaced is not what an earlier pick wrote.
    """
    for name in (RECIPE, *digests):
        files.refuse_to_replace(folder / name)
    earlier = _stored(folder) if (folder / RECIPE).exists() else None
    for name, digest in digests.items():
        path = folder / name
        if path.exists() and cache.file_digest(path) != digest and not (earlier and earlier.wrote(path)):
            raise InputError(
                f"{path} is there, and not as a pick wrote it: it is left as it is",
                fix="--output names another folder; or move the file away, which a pick that was stopped may have left",
            )
    before = folder / earlier.artifact.file if earlier else None
    return before if earlier and before and before.name not in digests and earlier.wrote(before) else None


def _place_of(task: Task) -> str | None:
    """The folder of a task, relative to the cache; None for a task that is not there but on the search path."""
    cache_folder = cache.folder()
    return task.folder.relative_to(cache_folder).as_posix() if task.folder.is_relative_to(cache_folder) else None


def task_of(record: Record) -> Task:
    """The task of a record, as it was measured.

    Raises:
        InputError: the task is not here, or has changed since.
    """
    name = record.cell.task

    def is_subject(task: Task) -> bool:
        return record.header.subject[:1] == (provenance.task_digest(task),)

    task = _task(name, is_subject)
    if not is_subject(task):
        raise InputError(
            f"the weights, code or data of {name} have changed since; `bench run {name}` measures them anew"
        )
    return task


def _task(name: TaskName, is_wanted: Callable[[Task], bool]) -> Task:
    """The task on the search path, or a user's own model in the cache where the search path has no task of the name.

    Args:
        name: name of the task.
        is_wanted: whether a model in the cache is the right one, for several may share a name.

    Raises:
        InputError: the task is neither on the search path nor in the cache.
    """
    if name.model in loading.find("models"):
        return catalog.task(name)
    if (task := adopt.recall(str(name), is_wanted)) is None:
        raise InputError(
            f"the model of {name} is neither in {cache.folder()} nor on BENCH_PATH; run this from the folder where "
            "`bench run --model` was run, or set BENCH_CACHE to its .cache/bench",
        )
    return task


def measured_steps(record: Record, limits: Limits) -> list[Artifact]:
    """The artifacts of all steps of a cell that was measured, as `prepare.steps_of` returns them.

    `task_of` must have been called before, since it brings back the task of a user's own model.

    Raises:
        InputError: the artifact that is made now is not the artifact that was measured, or there never was an artifact.
        ArtifactError: a step failed; the message names it.
    """
    cell, measured = record.cell, record.header.artifact
    if measured is None:
        reason = f": {record.failure.reason}" if record.failure else ""
        raise InputError(f"there is no artifact of {cell}{reason}")
    steps = prepare.steps_of(cell, limits)
    if (steps[-1].canonical or steps[-1].sha256) != (measured.canonical or measured.sha256):
        now, then = (artifact.canonical or artifact.sha256 for artifact in (steps[-1], measured))
        raise InputError(
            f"what is made of {cell} now is not what was measured: its digest is {now[:12]}, not {then[:12]}",
            fix=f"`bench run '{cell}'` measures it anew",
        )
    return steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """The recipe of a saved deployment.

    Attributes:
        cell: the cell that was picked.
        artifact: path of the artifact in the folder.
        format: format of the artifact.
        sha256: digest of the artifact.
        place: folder of the task in the cache, for a user's own model; absolute in folders of earlier versions.
        loss: the measured loss; None where it is unknown.
        metric: the measured metric; None where it is unknown.
        precision: in which the cell ran; None where it is unknown.
    """

    cell: Cell
    artifact: Path
    format: str
    sha256: str
    place: str | None
    loss: float | None
    metric: float | None
    precision: str | None

    def task(self) -> Task:
        """The task of the deployment.

        The task of a user's own model is looked up in the cache, so that no folder named by a file is ever loaded.

        Raises:
            InputError: the task is no longer here.
        """
        return _task(self.cell.task, lambda task: self.place in (_place_of(task), str(task.folder)))


def read(folder: Path) -> Recipe:
    """Read the recipe that `save` wrote.

    Raises:
        InputError: the folder has no such recipe.
    """
    said = _stored(folder)
    return Recipe(
        cell=Cell.from_path(said.cell),
        artifact=(folder / said.artifact.file).resolve(),
        format=said.artifact.format,
        sha256=said.artifact.sha256,
        place=said.task_folder,
        loss=said.measured.loss,
        metric=said.measured.metric,
        precision=said.measured.precision,
    )


def _stored(folder: Path) -> _Stored:
    """The fields of a folder's recipe.

    Raises:
        InputError: the folder has no such recipe.
    """
    path = folder / RECIPE
    try:
        said = msgspec.json.decode(files.read_bytes(path), type=_Stored)
        if Path(said.artifact.file).name != said.artifact.file or said.artifact.file in ("", ".."):
            raise ValueError(f"{said.artifact.file!r} is no name of a file")
        Cell.from_path(said.cell)
    except (OSError, ValueError, RecursionError, InputError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(
            f"{path} is not what `bench pick` wrote: {why}",
            fix="`bench pick` writes such a folder; --output names another",
        ) from error
    return said


def with_units(limits: Mapping[str, float], unit: str | None) -> dict[str, float | str]:
    """Limits by command-line option, as a recipe keeps them: that of the metric with its unit, unless it is a share."""
    return {option: f"{limit:g}{DB}" if option == METRIC and unit == DB else limit for option, limit in limits.items()}


class _File(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    format: str
    sha256: str


class _Program(msgspec.Struct, frozen=True, kw_only=True):
    sha256: str


class _Figures(msgspec.Struct, frozen=True, kw_only=True):
    loss: float | None
    metric: float | None
    precision: str | None = None


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a recipe that are read again."""

    cell: Annotated[str, msgspec.Meta(max_length=LONGEST_PATH)]
    artifact: _File
    measured: _Figures
    task_folder: str | None
    program: _Program | None = None

    def wrote(self, path: Path) -> bool:
        """Whether a file is as the pick wrote it: its artifact or its program, by name and digest.

        Recipes of earlier versions have no digest of the program, whose first line names the cell.
        """
        with contextlib.suppress(FileNotFoundError, InputError):
            files.refuse_to_replace(path)
            if path.name == PROGRAM:
                if self.program is None:
                    return files.read_bytes(path).startswith(
                        _PROGRAM_TEXT.partition("takes")[0].format(cell=self.cell).encode()
                    )
                return cache.file_digest(path) == self.program.sha256
            is_artifact = path.name == self.artifact.file and path.stem == ARTIFACT
            return is_artifact and cache.file_digest(path) == self.artifact.sha256
        return False
