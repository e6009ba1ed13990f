"""`bench report`: stored results as one page that can be sent, published and printed."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.features.page.document import Shown
    from bench.records.folder import Results
    from bench.records.rows import Row
    from bench.report.section import Section


def report(
    globs: options.Globs = None,
    *,
    results: options.Results = options.RESULTS,
    output: Annotated[
        Path | None, typer.Option(help="File to write; report.html in the folder of the results by default.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Leave out what names the user, the host and folders, to send the page.")
    ] = False,
) -> None:
    """One HTML file with tables, figures and raw samples, which needs nothing but itself and a browser.

    Where the folder has results of several machines, the page shows any of them, and which deployment is for all.
    """
    from bench.api.errors import InputError
    from bench.decisions import across_machines
    from bench.features.page.document import page
    from bench.report import excerpt, outcome

    every = options.read_all(results)
    globs_of = {name: _matched(stored, globs) for name, stored in every.items()}
    if globs and (without := [name for name, own in globs_of.items() if not own]) and len(without) < len(every):
        options.say(f"left out, for no cell matches there: {', '.join(without)}")
        every = {name: stored for name, stored in every.items() if globs_of[name]}
    rows = {name: stored.chosen(globs_of[name] or globs) for name, stored in every.items()}
    if empty := [name for name, own in rows.items() if not own]:
        reason = f"only proposals of searches are stored there, which globs can name: {', '.join(empty)}"
        if len(empty) == len(rows):
            raise InputError(f"no page is written: {reason}")
        options.say(f"left out: {reason}")
        every = {name: stored for name, stored in every.items() if rows[name]}
        rows = {name: rows[name] for name in every}
    if public:  # folders have any name
        names = dict(zip(every, (f"machine-{number}" for number in itertools.count(1)), strict=False))
        every = {names[name]: stored for name, stored in every.items()}
        rows = {names[name]: own for name, own in rows.items()}
    most = excerpt.MOST // len(rows)
    shown = []
    for name, own in rows.items():
        option = "" if public else outcome.results_option(_folder(results, every[name]))
        shown.append(_shown(name, every[name], own, most, option=option, globs=globs or (), public=public))
    options.say_notes(filter(None, [machine.part for machine in shown]))
    path = output or results / "report.html"
    margin = next(iter(every.values())).margin
    options.write(page(shown, margin=margin, everywhere=across_machines.of_all_requests(every, rows)), path)
    options.tell(str(path))


def _matched(stored: Results, globs: Sequence[str] | None) -> list[str]:
    """Those of the globs that match a cell of a machine."""
    from bench.api.cell import Cell, matching

    cells = [Cell.from_path(row.cell) for row in stored.rows]
    return [glob for glob in globs or () if matching(cells, glob)]


def _folder(results: Path, stored: Results) -> Path:
    """The folder by which a command finds the results of one machine: that which was asked for, where it is enough."""
    from bench.api.errors import InputError
    from bench.records.folder import machine_folder

    with contextlib.suppress(InputError):  # of several machines
        if machine_folder(results) == stored.folder:
            return results
    return stored.folder


def _shown(
    name: str, stored: Results, rows: Sequence[Row], most: int, *, option: str, globs: Sequence[str], public: bool
) -> Shown:
    """The results of one machine as the page takes them, of so many cells at most."""
    from bench.api import features
    from bench.api.loss_units import AllowedLoss
    from bench.decisions.answer import answers
    from bench.decisions.best import best_of
    from bench.decisions.constraints import Constraints
    from bench.features.page.document import Shown
    from bench.records import noise
    from bench.records.redaction import record_to_send, row_to_send
    from bench.report import excerpt

    answered = answers(stored.measurements, rows, Constraints(max_metric_loss=AllowedLoss()))
    deployments, cells = best_of(stored.measurements, answered), {row.cell for row in rows}
    taken = excerpt.of(rows, {deployment.row.cell for deployment in deployments}, most)
    paths = {row.cell for row in taken}
    recorded_cells = {record.cell for path in cells if (record := stored.records.get(path)) is not None}
    sections: dict[str, list[Section]] = {}
    for module in features.modules("page"):
        for task, section in module.sections(stored, recorded_cells):
            sections.setdefault(task, []).append(section)
    records = {path: stored.records[path] for path in paths}
    beside = {record.launches[-1].reference for record in records.values() if record.launches}
    records |= {path: stored.records[path] for path in beside if path in stored.records}
    if public:
        taken = [*map(row_to_send, taken)]
        records = {path: record_to_send(record) for path, record in records.items()}
    places = stored.measurements.machine_effects
    named = sorted({place for _, place in places})
    own = {place: f"machine {number}" if public else place for number, place in enumerate(named, 1)}
    return Shown(
        name=name,
        records=records,
        rows=taken,
        noise=noise.said(stored.measurements, rows),
        part=excerpt.sentence("those to ship, ", len(taken), len(rows)) if len(taken) < len(rows) else "",
        best=[deployment for deployment in deployments if deployment.row.cell in paths],
        lacking=[answer for answer in answered if answer.choice.leading is None],
        option=option,
        globs=globs,
        peaks=stored.peaks,
        places={(program, own[place]): effect for (program, place), effect in places.items()},
        sections=sections,
    )


COMMANDS = {"Share": {"report": report}}
"""The command, under its heading of `bench --help`."""
