"""The steps of a sweep that a machine of a fleet runs: plain functions, which Ray calls in a process of its own there.

Each holds the machine's lease while it works, see `bench.measure.lease`; Ray's resource sees to it that no two are sent
to one machine, and the lock file also keeps away whoever measures there without Ray.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np

from bench.api import cache
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, BenchError
from bench.features.fleet import facts
from bench.measure import lease
from bench.measure.block import Method, Repeats, run_block
from bench.measure.launch import Launch
from bench.measure.limits import Limits
from bench.pipeline import opening, prepare, provenance
from bench.pipeline.flow import Prepared, Verified
from bench.pipeline.looks import Until
from bench.pipeline.place import Begun, Here
from bench.plugins import catalog
from bench.records.lines import Failure, Quality

_WAIT_S = 600.0
"""Time that a step waits for whoever measures on its machine without the fleet."""

_UNFIT = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE),
        *(errno.EACCES, errno.ENOTDIR, errno.EEXIST),
    }
)
"""Errors of the system that concern the machine, and no single cell: those of its disk, then those of its cache."""
Content: TypeAlias = tuple[str, np.ndarray]
"""The entry of a cached file, as JSON, and its bytes."""
_HERE = Here()
_REPEATS = Repeats()


class UnfitError(BenchError):
    """This machine cannot go on, such as one whose disk is full; another one may."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What a block brought, in a form that can be sent.

    Attributes:
        launches: keys of records, with a launch of each.
        superseded: likewise, launches that do not count.
        failures: of each cell that failed its key, the stage, and kind, reason and detail of the error.
    """

    launches: tuple[tuple[str, Launch], ...]
    superseded: tuple[tuple[str, Launch], ...] = ()
    failures: tuple[tuple[str, str, str, str, str], ...] = ()


def tell() -> facts.Facts:
    """What this machine tells about itself."""
    return facts.here()


def skip_reasons(cells: Sequence[Cell]) -> list[str | None]:
    """See `Place.skip_reasons`."""
    return _HERE.skip_reasons(cells)


def prepared(cells: Sequence[Cell], limits: Limits, sent: Sequence[tuple[str, str, Any]]) -> Iterator[Begun]:
    """Prepare cells; yields each as soon as it is prepared or has failed.

    Args:
        cells: the cells.
        limits: time and memory of the workers.
        sent: portable files of a machine of another kind: the keys of their cache entries, their names, and references
            to their contents.
    """

    import ray

    def step(report: Callable[[Begun], None]) -> None:
        for key, name, content in sent:
            with contextlib.suppress(ArtifactError, ray.exceptions.RayError):  # it is made here
                _kept(key, name, content)
        _HERE.prepare(cells, limits, report)

    yield from _as_told(step)


def portable(cells: Sequence[Cell], limits: Limits) -> list[Path]:
    """The portable files of cells that were prepared here."""
    paths: dict[Path, None] = {}
    with _fit(), lease.hold(wait_s=_WAIT_S):
        for cell in cells:
            with contextlib.suppress(ArtifactError):  # it was lost since
                paths |= dict.fromkeys(prepare.portable_of(cell, limits))
    return list(paths)


def verified(
    cells: Sequence[Prepared], known: Mapping[str, Quality], limits: Limits, until: Until | None
) -> Iterator[tuple[Sequence[Prepared], Verified | Failure]]:
    """Verify cells; yields those that run the same graph together, with what came of it."""

    def step(report: Callable[[Any], None]) -> None:
        local = []
        for value in cells:
            try:
                local.append(_prepared_here(value, limits))
            except BenchError as error:
                report(([value], Failure.of("verify", error)))
        _HERE.verify(local, known, limits, until, lambda *each: report(each))

    yield from _as_told(step)


def content(path: Path) -> Content:
    """A file of this machine's cache, to be kept in Ray's object store."""
    with lease.hold(wait_s=_WAIT_S):
        return cache.entry_text(path), np.fromfile(path, np.uint8)


def block(
    baseline: Verified,
    others: Sequence[Verified],
    method: Method,
    left_s: float,
    files: Mapping[str, Any],
    name: str,
) -> Done:
    """Measure some cells beside their baseline.

    Args:
        baseline: the cell with which the others are compared, as another machine of this kind verified it.
        others: the other cells.
        method: how the block measures.
        left_s: seconds after which it is to end early.
        files: references to the contents of the cells' files, by the keys of their cache entries.
        name: name of this machine in the fleet.

    Raises:
        BenchError: the machine is in use or cannot go on, or one of the cells is another cell here.
    """
    began_s = time.monotonic()
    with _fit() as still_lives, lease.hold(wait_s=_WAIT_S):
        start_s = time.time()
        subjects, failures = [], []
        for value in others:
            try:
                subjects.append(opening.subject(_here(value, files, method.limits)))
            except ArtifactError as error:  # the others can be measured
                failures.append((value.key, "open", "error", str(error), ""))
        result = run_block(
            opening.subject(_here(baseline, files, method.limits)),
            subjects,
            method,
            out_of_time=lambda: time.monotonic() - began_s >= left_s,
            repeats=_REPEATS,
        )
        still_lives()
        marks = {"place": name, "lease_s": (start_s, time.time())}
    return Done(
        launches=tuple((subject.key, msgspec.structs.replace(launch, **marks)) for subject, launch in result.launches),
        superseded=tuple(
            (subject.key, msgspec.structs.replace(launch, **marks)) for subject, launch in result.superseded
        ),
        failures=(
            *failures,
            *(
                (failed.subject.key, failed.stage, failed.error.kind, failed.error.reason, failed.error.detail)
                for failed in result.failures
            ),
        ),
    )


def _prepared_here(value: Prepared, limits: Limits) -> Prepared:
    """A cell that this machine or another one prepared, with the file that this machine has of it.

    Raises:
        BenchError: the file cannot be made here, or is another one.
    """
    artifact = prepare.artifact_of(value.cell, limits)
    if artifact.sha256 != value.artifact.sha256:
        raise ArtifactError(f"{value.cell} has another file here: SHA-256 {artifact.sha256[:12]}")
    return dataclasses.replace(value, artifact=dataclasses.replace(value.artifact, path=artifact.path))


def _here(value: Verified, files: Mapping[str, Any], limits: Limits) -> Verified:
    """A verified cell with the files that this machine has of it.

    Raises:
        ArtifactError: a file is another one here, or the cell has another key, so launches here are of another cell.
    """
    artifact = value.artifact
    path = _arrived(artifact.path, files, lambda: prepare.artifact_of(value.cell, limits).path)
    if (there := cache.file_digest(path)) != artifact.sha256:
        raise ArtifactError(
            f"{value.cell} has another file here: SHA-256 {there[:12]} instead of {artifact.sha256[:12]}"
        )
    inputs = _arrived(value.inputs, files, lambda: prepare.inputs_of(catalog.task(value.cell.task), limits))
    local = dataclasses.replace(value, artifact=dataclasses.replace(artifact, path=path), inputs=inputs)
    if (key := provenance.record_key(local.cell, local.artifact)) != value.key:
        raise ArtifactError(f"{value.cell} is another cell here: its key is {key} instead of {value.key}")
    return local


def _arrived(there: Path, files: Mapping[str, Any], make: Callable[[], Path]) -> Path:
    """The file of this machine's cache that another machine has at a path: as it was sent, or made here.

    Raises:
        ArtifactError: the content that was sent is not that of its entry.
    """
    import ray

    key, name = there.parent.name, there.name
    if key not in files:
        return make()
    try:
        return _kept(key, name, files[key])
    except ray.exceptions.RayError:  # it was lost with the machine that had it
        return make()


def _kept(key: str, name: str, content: Any) -> Path:
    """A file in this machine's cache, as another machine sends it where it is not there.

    Args:
        key: the key of its entry.
        name: its name.
        content: a reference to its content.

    Raises:
        ArtifactError: the content that was sent is not that of its entry.
        ray.exceptions.RayError: it was lost.
    """
    import ray

    def write(target: Path) -> dict[str, Any]:
        entry, array = ray.get(content)
        array.tofile(target)
        expected: dict[str, Any] = json.loads(entry)
        if cache.file_digest(target) != expected["sha256"]:
            raise ArtifactError(f"{name} of {key} came damaged")
        return expected

    return cache.obtain(key, name, write)[0]


@contextlib.contextmanager
def _fit() -> Iterator[Callable[[], None]]:
    """Tell of a disk that is full or broken, and of a cache that cannot be written, as of the machine.

    Yields a function to call before results are sent. Where Ray's process on the machine has died, which is the parent
    of this one, Ray kills the children of this process before the process itself, and a cell would be blamed for that.

    Raises:
        UnfitError: such as for a full disk.
    """
    raylet = os.getppid()

    def still_lives() -> None:
        if os.getppid() != raylet:
            raise UnfitError("Ray's process on this machine has died")

    try:
        yield still_lives
    except OSError as error:
        if error.errno not in _UNFIT:
            raise
        raise UnfitError(f"{error.strerror or error} ({error.filename or cache.folder()})") from error


def _as_told(step: Callable[[Callable[[Any], None]], None]) -> Iterator[Any]:
    """Run a step that tells of each thing that is done, holding the lease, and yield what it tells."""
    messages: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()

    def run() -> None:
        try:
            with _fit() as still_lives, lease.hold(wait_s=_WAIT_S):

                def send(each: Any) -> None:
                    still_lives()
                    messages.put((each,))

                step(send)
            messages.put(())
        except BaseException as error:  # raised again where the items are yielded
            messages.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    while message := messages.get():
        if len(message) == 2:
            raise message[1]
        yield message[0]
