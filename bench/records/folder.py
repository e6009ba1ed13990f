"""The stored results of one machine, read once: its folder, its records, its rows and its peaks."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import shlex
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bench.api.cell import Cell, matching
from bench.api.errors import InputError, nearest
from bench.api.names import TaskName
from bench.measure import machine
from bench.measure.questions import Aims
from bench.measure.roofline import Peaks
from bench.records import assemble, costs
from bench.records import peaks as stored_peaks
from bench.records.measurements import Measurements
from bench.records.reading import Damage, note_of
from bench.records.rows import Row
from bench.records.store import Record, Store


@dataclasses.dataclass(frozen=True, kw_only=True)
class Results:
    """The results of one machine, and the rows that were made of them.

    Attributes:
        folder: the machine's folder of results.
        records: the current record of each cell path.
        rows: one row for each record.
        measurements: the model of the measurement, fitted to the records.
        peaks: peaks of the machine, by number of threads.
        margin: largest difference that the rows' verdicts count as noise, as a share.
        damages: the lines and files that were set aside, because they cannot be read.
    """

    folder: Path
    records: Mapping[str, Record]
    rows: Sequence[Row]
    measurements: Measurements
    peaks: Mapping[int, Peaks]
    margin: float
    damages: Sequence[Damage] = ()

    def chosen(self, globs: Sequence[str] | None) -> list[Row]:
        """See `chosen`, below."""
        return chosen(self.rows, globs or ())

    def of(self, cells: Iterable[Cell]) -> list[Row]:
        """The rows of cells, in the cells' order; a cell without results has none."""
        rows = {row.cell: row for row in self.rows}
        return [rows[cell.path] for cell in cells if cell.path in rows]

    def baselines_of(self, rows: Sequence[Row]) -> list[Cell]:
        """The cells that rows were timed beside, as far as they are not among the rows."""
        launches = (record.launches for row in rows if (record := self.records.get(row.cell)) is not None)
        paths = dict.fromkeys(series[-1].reference for series in launches if series)
        return [Cell.from_path(path) for path in paths if path not in {row.cell for row in rows}]

    def under(self, peaks: Mapping[int, Peaks]) -> Results:
        """The same results with other peaks."""
        return dataclasses.replace(self, peaks=peaks, rows=costs.joined(self.rows, self.records, peaks))


def read(results: Path, *, margin: float = Aims().margin, baseline: str | None = None) -> Results:
    """Read the results of the machine that `machine_folder` finds, and make their rows.

    Args:
        results: folder of the results of one machine or of several.
        margin: largest difference that counts as noise, as a share.
        baseline: path of a cell to compare with, instead of each group's own baseline.

    Raises:
        InputError: there are no results, it is not clear of which machine, or the baseline has no result.
    """
    return _read(machine_folder(results), margin=margin, baseline=baseline)


def read_all(
    results: Path, *, margin: float = Aims().margin, left_out: Callable[[str], None] = lambda _: None
) -> dict[str, Results]:
    """Read the results of all machines in a folder, by the names of the machines; those of this machine come first.

    Args:
        results: folder of the results of one machine or of several.
        margin: largest difference that counts as noise, as a share.
        left_out: told why a machine is left out that has no results which can be read.

    Raises:
        InputError: there are no results.
    """
    folders = sorted(_folders(results), key=_order)
    if not folders or _holds_results(results):
        folders = [machine_folder(results)]
    every, errors = {}, []
    for folder in folders:
        try:
            every[folder.name] = _read(folder, margin=margin, baseline=None)
        except InputError as error:
            errors.append(error)
    if not every:
        raise errors[0]
    for reason in errors:
        left_out(str(reason))
    return every


def _folders(results: Path) -> list[Path]:
    """The folders of machines in a folder of results, in the order of their names."""
    return sorted(path for path in results.glob("*/") if _holds_results(path))


def _holds_results(folder: Path) -> bool:
    """Whether a folder has a file of results; it may have very many."""
    return any(True for _ in folder.glob("*.jsonl"))


def _order(folder: Path) -> tuple[bool, str]:
    return (folder.name != machine.name(), folder.name)


def _read(folder: Path, *, margin: float, baseline: str | None) -> Results:
    results = stored(Store(folder.parent, folder.name), margin=margin, baseline=baseline)
    if not results.rows:
        reasons = (f"no results in {folder}", note_of(results.damages), "`bench run` measures")
        raise InputError("; ".join(filter(None, reasons)))
    return results


def stored(
    store: Store,
    *,
    margin: float = Aims().margin,
    baseline: str | None = None,
    tasks: Container[str] | None = None,
    beside: str | None = None,
) -> Results:
    """The results in a store, which may be empty: every record is read once.

    Args:
        store: the store of one machine.
        margin: largest difference that counts as noise, as a share.
        baseline: as for `read`.
        tasks: names of the only tasks whose records matter; None for all.
        beside: path of the cell beside which the launches were measured that count; None for the last one of each cell.

    Raises:
        InputError: the baseline has no result.
    """
    with _uncollected():
        return _stored(store, margin=margin, baseline=baseline, tasks=tasks, beside=beside)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Leave Python's search for circular garbage out: there is none in results, and it takes half of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            # Both move everything to the oldest objects: else the next search would be through all that was read.
            gc.freeze()
            gc.unfreeze()
            gc.enable()


def _stored(
    store: Store, *, margin: float, baseline: str | None, tasks: Container[str] | None, beside: str | None
) -> Results:
    contents, (peaks, damage) = store.contents(), stored_peaks.examined(store.folder)
    wanted = {
        path: record for path, record in contents.current.items() if tasks is None or str(record.cell.task) in tasks
    }
    if beside is not None:
        wanted = {path: _beside(record, beside) for path, record in wanted.items()}
    fitted = Measurements(wanted)
    damages = (*contents.damages, *([damage] if damage else []))
    try:
        rows = assemble.rows(wanted, baseline=baseline, margin=margin, peaks=peaks, measurements=fitted)
    except InputError as error:  # the baseline may be among what cannot be read
        raise InputError("; ".join(filter(None, (str(error), note_of(damages))))) from error
    return Results(
        folder=store.folder,
        records=wanted,
        rows=rows,
        measurements=fitted,
        peaks=peaks,
        margin=margin,
        damages=damages,
    )


def _beside(record: Record, reference: str) -> Record:
    launches = tuple(launch for launch in record.launches if launch.reference == reference)
    return dataclasses.replace(record, launches=launches)


def machine_folder(results: Path) -> Path:
    """The folder of this machine's results, or the only folder with results.

    Raises:
        InputError: no folder has results, or several folders of other machines have.
    """
    if not results.is_dir():
        raise InputError(f"no such folder: {results}; `bench run --model FILE` makes it, or `bench run` with cells")
    if (results / machine.name()).is_dir():
        return results / machine.name()
    if _holds_results(results):
        return results
    folders = _folders(results)
    if len(folders) == 1:
        return folders[0]
    if not folders:
        raise InputError(f"no results in {results}; `bench run` measures")
    names = ", ".join(shlex.quote(str(folder)) for folder in folders)
    raise InputError(f"{results} holds no results of this machine, but of others: give one with --results: {names}")


def in_order(glob: str) -> str:
    """A glob with the sizes of its task, if it tells any, in the order in which names have them."""
    task, slash, rest = glob.partition("/")
    try:
        return f"{TaskName.parse(task)}{slash}{rest}"
    except InputError:  # a pattern for sizes
        return glob


def _nearest(part: str, known: Sequence[str]) -> str | None:
    """The known part of a path that is most like another one; of a model's file, the task that has its name."""
    stem, dot, _ = part.rpartition(".")
    if dot and stem in known:
        return stem
    return nearest(part, known)


def chosen(rows: Sequence[Row], globs: Sequence[str]) -> list[Row]:
    """The rows whose cells a glob matches; without globs all rows but the proposals of searches.

    Raises:
        InputError: a glob matches no row.
    """
    globs = [in_order(glob) for glob in globs]
    cells = [Cell.from_path(row.cell) for row in rows]
    wanted: set[Cell] = set()
    for glob in globs:
        of_glob = matching(cells, glob)
        wanted.update(of_glob)
        if not of_glob:
            parts = sorted({part for row in rows for part in row.cell.split("/")})
            unknown = [part for part in glob.split("/") if part not in parts and not set(part) & set("*?[")]
            near = _nearest(unknown[0], parts) if unknown else None
            known = "`bench show` lists the cells that have a result"
            if near is not None:
                known = f"did you mean {near!r}?"
            elif unknown:
                tasks = ", ".join(dict.fromkeys(row.task for row in rows if not row.task_name.is_of_search))
                known = f"the tasks that have results are {tasks}; `bench show` lists their cells"
            raise InputError(f"no result matches {glob!r}; {known}")
    if not globs:
        return [row for row in rows if not row.task_name.is_of_search]
    return [row for row, cell in zip(rows, cells, strict=True) if cell in wanted]
