"""The page: one HTML file with tables, figures and the details of every cell, which needs nothing but itself."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.api.loss_units import AllowedLoss
from bench.api.printable import printable
from bench.decisions.across_machines import Everywhere
from bench.decisions.answer import Answer
from bench.decisions.best import Best, sources_of
from bench.features.page import about, strips
from bench.features.page.cards import cards
from bench.features.page.details import details
from bench.features.page.scatters import Scatter, against_latency, roofline
from bench.features.page.tracks import Lines, lines
from bench.measure.launch import Launch
from bench.measure.roofline import Peaks
from bench.measure.stats import Effect
from bench.records import assemble, ranking
from bench.records.launches import MOST_SAMPLES
from bench.records.ranking import Group, Selection
from bench.records.rows import Row
from bench.records.store import Record
from bench.records.warnings import warnings
from bench.report import columns, machine_effects, outcome, tables
from bench.report.across_machines import over
from bench.report.columns import Column
from bench.report.figures import whiskers
from bench.report.figures.canvas import COLOURS, MARKERS, Look, digits, looks_of
from bench.report.roofline import above_peak
from bench.report.section import Section
from bench.report.templates import Block, fill
from bench.report.writing import one_line, unbroken

FOLDER = Path(__file__).parent
COLUMNS = (
    *("cell", "latency_p50_ns", "ratio", "verdict", "metric", "metric_loss_high", "fidelity", "precision"),
    *("model_rss_bytes", "size_bytes", "download_bytes", "num_params", "load_ns", "first_inference_ns"),
    *("gmacs_per_s", "peak_share"),
)
"""Keys of the columns; a table leaves out those that none of its rows has a value of."""
_FACETS = ("runtime", "precision", "outcome")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """The part of the page about one group of cells that may be compared.

    Attributes:
        group: the rows of the table.
        columns: the columns of the table, with a text for each row of the group.
        scatters: the scatter plots of the group.
        lines: the timed cells of the group below one another, with tracks beside them.
        above_peak: why rows are above the machine's peak.
    """

    group: Group
    columns: Sequence[Column]
    scatters: Sequence[Scatter]
    lines: Lines
    above_peak: Sequence[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shown:
    """The results of one machine that the page shows.

    Attributes:
        name: the machine.
        records: the current record of each cell path.
        rows: the rows of the cells to show.
        part: a sentence on which cells these are; empty where they are all.
        noise: sentences on how noisy the machine was, see `bench.records.noise`.
        best: the deployments to ship among these cells; each loses at most `AllowedLoss` of its metric.
        lacking: the answers for tasks of which no cell qualifies.
        option: the option by which commands find these results, with a space before it; empty for the usual folder.
        globs: globs that chose the rows; none where they are all.
        peaks: the peaks of the machine, by number of threads.
        sections: the sections of features to show there, by the task.
        places: what each of several machines of one kind does to each runtime, see `Measurements.machine_effects`.
    """

    name: str = "this-machine"
    records: Mapping[str, Record]
    rows: Sequence[Row]
    part: str = ""
    noise: str = ""
    best: Sequence[Best] = ()
    lacking: Sequence[Answer] = ()
    option: str = ""
    globs: Sequence[str] = ()
    peaks: Mapping[int, Peaks] = dataclasses.field(default_factory=dict)
    sections: Mapping[str, Sequence[Section]] = dataclasses.field(default_factory=dict)
    places: Mapping[tuple[str, str], Effect] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Place:
    """The part of the page about one machine.

    Attributes:
        place: its identifier in the page.
        name: the machine.
        body: its HTML.
        details: what the page says of each cell when it is asked, in the order of the cells' numbers.
    """

    place: str
    name: str
    body: str
    details: Sequence[object]


def page(machines: Sequence[Shown], *, margin: float, everywhere: Sequence[Everywhere] = ()) -> str:
    """The whole page as HTML.

    Args:
        machines: the results of each machine; of several, the page shows one at a time.
        margin: the largest difference that counts as noise, as a share.
        everywhere: for requests that several machines answered, the deployment for all of them.
    """
    looks = looks_of(row.runtime for shown in machines for row in shown.rows)
    places: list[_Place] = []
    for machine in machines:
        first = sum(len(place.details) for place in places)
        places.append(_place(machine, f"on-{machine.name}-" if len(machines) > 1 else "", looks, first))
    script = unbroken((FOLDER / "page.js").read_text(encoding="utf-8"))
    tasks = dict.fromkeys(group.task for shown in machines for group in ranking.select(shown.rows).groups)
    html = fill(
        "features/page/page.html.j2",
        title=f"{', '.join(tasks)} on {_names(machines)}",
        machines=places,
        everywhere=everywhere,
        max_metric_loss=AllowedLoss(),
        legend=tables.legend_of([row for shown in machines for row in shown.rows]),
        margin=margin,
        most_points=MOST_SAMPLES,
        short_name=ranking.short_name,
        digits=digits,
        over_fastest=over,
        style=(FOLDER / "page.css").read_text(encoding="utf-8"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=embedded([cell_details for place in places for cell_details in place.details]),
    )
    return unbroken(html)


def _names(machines: Sequence[Shown]) -> str:
    if len(machines) > 1:
        return f"{len(machines)} machines"
    return about.machine([*machines[0].records.values()]) if machines[0].records else machines[0].name


def _place(shown: Shown, prefix: str, looks: Mapping[str, Look], first: int) -> _Place:
    """The part of one machine.

    Args:
        shown: its results.
        prefix: what identifiers in the page begin with.
        looks: colours and markers by runtime.
        first: number of the first cell among those of the page.
    """
    selection = ranking.select(shown.rows)
    launches = {row.cell: assemble.compared(shown.records[row.cell], shown.records) for row in selection.rows}
    tasks: dict[str, list[Request]] = {}
    higher = assemble.higher_is_better(shown.records)
    for group in selection.groups:
        request = _request(group, selection, higher, launches, shown.peaks.get(group.threads))
        tasks.setdefault(group.task, []).append(request)
    recorded = [shown.records[row.cell] for row in selection.rows]
    place = f"{prefix}place"
    body = fill(
        "features/page/machine.html.j2",
        prefix=prefix,
        place=place,
        machine=about.machine(recorded),
        counts=about.counts(selection.rows),
        part=shown.part,
        noise=shown.noise,
        cards=cards(selection.groups, shown.best, shown.lacking, option=shown.option, globs=shown.globs),
        best=shown.best,
        regret=outcome.regret,
        may_be_as_fast=outcome.may_be_as_fast,
        other_threads=outcome.of_other_threads,
        metric_bound=outcome.metric_bound,
        metric_change=outcome.metric_change,
        sources=sources_of(shown.best),
        max_metric_loss=AllowedLoss(),
        tasks=tasks,
        sections=shown.sections,
        shown={row.cell: row for row in selection.rows},
        ids={row.cell: number for number, row in enumerate(selection.rows, first)},
        facets={facet: sorted({_facet(row, facet) for row in shown.rows} - {""}) for facet in _FACETS},
        looks={name: (COLOURS.index(look.colour), MARKERS.index(look.marker)) for name, look in looks.items()},
        strips=strips.MEANING,
        whiskers=whiskers.MEANING,
        versions=about.versions(recorded),
        shared_by=machine_effects.table(shown.places),
        shared_title=machine_effects.TITLE,
        shared_note=machine_effects.NOTE,
        short_name=ranking.short_name,
        is_baseline=ranking.is_baseline,
        digits=digits,
        caption=columns.caption,
        warnings=warnings,
        facet=_facet,
        note=_note,
        words=_words,
    )
    all_details = [details(row, shown.records[row.cell], launches[row.cell]) for row in selection.rows]
    return _Place(place=place, name=shown.name, body=Block(body), details=all_details)


def embedded(value: object) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element or begins a comment.

    Control characters in its texts become escapes that the page shows, as they do in the page itself.
    """
    text = json.dumps(_printable(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _printable(value: object) -> object:
    if isinstance(value, Mapping):
        return {printable(str(key)): _printable(content) for key, content in value.items()}
    if isinstance(value, (list, tuple)):
        return [*map(_printable, value)]
    return printable(value) if isinstance(value, str) else value


def _request(
    group: Group,
    selection: Selection,
    higher_is_better: Mapping[str, bool],
    launches: Mapping[str, Sequence[Launch]],
    peaks: Peaks | None,
) -> Request:
    task = [row for row in selection.rows if row.task == group.task]
    wanted = columns.columns_of(group, dataclasses.replace(selection, columns=COLUMNS), notes=False)[1:]
    scatters = against_latency(group, task, higher_is_better=higher_is_better.get(group.task, True))
    roof = roofline(group, peaks)
    return Request(
        group=group,
        columns=[column for column in wanted if not column.is_unknown],
        scatters=[*scatters, roof] if roof else scatters,
        lines=lines(group, task, launches),
        above_peak=above_peak(group.rows, {} if peaks is None else {group.threads: peaks}),
    )


def _note(row: Row, group: Group) -> str:
    return one_line(columns.notes_of(row, group))


def _words(row: Row, group: Group) -> str:
    """The words by which the page's search finds a row, in lower case."""
    words = (row.cell, columns.verdict_of(row, group), row.fidelity, row.precision, _note(row, group))
    return " ".join(word or "" for word in words).lower()


def _facet(row: Row, facet: str) -> str:
    """The value of a row by which it can be filtered; its outcome is one word for its status and its verdict."""
    return (columns.outcome_of(row) or "not timed") if facet == "outcome" else getattr(row, facet) or ""
