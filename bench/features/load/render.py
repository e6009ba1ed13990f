"""Services under load as text: scenarios, turns under the same arrivals, plans, and requests that come alone."""

from __future__ import annotations

import re
import statistics
import textwrap
from collections.abc import Iterator, Sequence

from bench.api.printable import printable
from bench.features.load import loadgen
from bench.features.load.lines import HIGHEST, P50, P90, P99, LoadRun, Point, launches_of, runs_of, sporadic_of
from bench.features.load.sporadic import BUSY
from bench.features.load.turns import STATISTICS, Turns, Way, last_runs
from bench.measure import processors
from bench.records import machines
from bench.records.store import Record
from bench.report import writing

FIGURES = {
    "single_stream": ("90.00 percentile latency (ns)", "p90", 1e-6, "ms"),
    "multi_stream": ("99.00 percentile latency (ns)", "p99", 1e-6, "ms"),
    f"{loadgen.SERVER} {P90}": ("90.00 percentile latency (ns)", "p90", 1e-6, "ms"),
    f"{loadgen.SERVER} {P99}": ("99.00 percentile latency (ns)", "p99", 1e-6, "ms"),
    "offline": ("Samples per second", "rate", 1.0, "samples/s"),
}
"""For each scenario, the figure that MLPerf compares, as the load generator names it, and how it is shown."""
TOKENS = {
    "first token": "90.00 percentile first token latency (ns)",
    "per token": "90.00 percentile time to output token (ns)",
}
"""What the load generator says of services that generate texts of several tokens, by what it is called here."""
FIGURE, TEXT, LEAST_NAME = 15, 12, 25
"""Characters of a line in a terminal: of a figure with an interval and of another text at most, of a name at least."""
_TOO_SLOW, _TOO_FEW = "performance constraints not met", "early stopping not met"
"""What the load generator says where its bound on the latency is missed, and where too few requests show that it is
kept."""


def render(
    records: Sequence[Record], all_turns: Sequence[Turns], *, format: str, margin: float, turns_alone: bool = False
) -> str:
    """Every table for which there are results.

    Args:
        records: the records of the cells that are shown.
        all_turns: what took turns.
        format: `table`, `md` or `json`.
        margin: largest difference that counts as noise, as a share.
        turns_alone: whether runs of one service at a time are left out: scenarios, and requests that come alone.
    """
    where = _headline(records)
    if format == "json":
        turns = [_raw(each, margin) for each in all_turns]
        return writing.as_json({"measured": where, "turns": turns, "cells": [*map(_raw_record, records)]})
    above = writing.paragraph([where], format)
    tables = [
        above and above.rstrip("\n") + "\n",
        "" if turns_alone else _scenarios(records, format),
        *(table for each in all_turns for table in (_turns(each, format, margin), _plan(each, format))),
        "" if turns_alone else _sporadic(records, format),
    ]
    return "\n".join(filter(None, tables))


def _headline(records: Sequence[Record]) -> str:
    """The sentence of `machines.headline`, with the days on which services were under load."""
    seen = []
    for record in records:
        times = [line.time for line in (*launches_of(record), *runs_of(record))]
        times += [alone.time for alone in [sporadic_of(record)] if alone is not None]
        machine = processors.description(record.header.machine) if record.header.machine else None
        seen.append((machine, [time[:10] for time in times if time]))
    return machines.sentence(seen)


def rate(value: float) -> str:
    """Requests a second, or another figure, to three digits at least."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def answer(turns: Turns) -> str:
    """A plan in a sentence: the way that held the highest rate, and how many were not shown to hold a lower rate.

    Empty where no way keeps the bound.
    """
    best = turns.best()
    if best is None:
        return ""
    others = len(turns.not_lower_than(best))
    more = f" ({others} more not told apart)" if others else ""
    return f"{split(best)}, {held_rate(turns, best)} at {bound(turns)}: {best.cell.path}{more}"


def split(way: Way) -> str:
    """How a cell is served, such as `2 instances x 1 thread, batch <= 4`."""
    threads = "1 thread" if way.cell.threads == 1 else f"{way.cell.threads} threads"
    setup, most = way.setup, way.setup.batching.most
    instances = "1 instance" if setup.instances == 1 else f"{setup.instances} instances"
    sessions = f" x {setup.sessions} sessions" if setup.sessions > 1 else ""
    return f"{instances}{sessions} x {threads}{f', batch <= {most}' if most > 1 else ''}"


def held_rate(turns: Turns, way: Way) -> str:
    """The highest rate of a service that holds one, such as `310 requests/s [300, 321]`."""
    highest = turns.highest_rate(way)
    assert highest is not None
    return f"{rate(highest.value)} requests/s [{rate(highest.low)}, {rate(highest.high)}]"


def _scenarios(records: Sequence[Record], format: str) -> str:
    lines = []
    for record in records:
        for (scenario, way), run in last_runs(record).items():
            shown = ""
            if run.is_valid and _figure(run) in FIGURES:
                key, short, factor, unit = FIGURES[_figure(run)]
                shown = f"{short} {factor * run.figures[key]:.4g} {unit}" if key in run.figures else ""
                shown += "".join(
                    f"; {name} p90 {run.figures[figure] / 1e6:.4g} ms"
                    for name, figure in TOKENS.items()
                    if figure in run.figures
                )
            target = f"{rate(run.settings['server_target_qps'])}/s" if "server_target_qps" in run.settings else ""
            lines.append([record.cell.path, str(way.setup), scenario.replace("_", " "), target, shown or invalid(run)])
    if not lines:
        return ""
    titles = ["cell", "served by", "scenario", "asked", "MLPerf loadgen says"]
    return _table(titles, lines, format)


def invalid(run: LoadRun) -> str:
    """Why a run does not count: the latency that missed its bound, and what to ask for instead, where that is known."""
    percent = 100 * run.settings.get("server_target_latency_percentile", 0.99)
    bound_ns = run.settings.get("server_target_latency_ns")
    seen_ns = run.figures.get(f"{percent:.2f} percentile latency (ns)")
    unmet = run.reason.split(", ")
    others = [reason for reason in unmet if reason not in (_TOO_SLOW, _TOO_FEW)]
    is_of_latency = len(others) < len(unmet) and loadgen.TOKENS not in run.settings  # else bounds are on tokens
    if not is_of_latency or bound_ns is None or seen_ns is None:
        return f"invalid: {run.reason}"
    seen, bound = (writing.milliseconds(each, ".3g") for each in (seen_ns, bound_ns))
    if seen_ns > bound_ns:
        why = f"p{percent:g} {seen} ms is over the bound of {bound} ms; try a lower --rate or a longer --latency"
    else:
        why = f"p{percent:g} {seen} ms is too near the bound of {bound} ms for so few requests; try --mlperf"
    return "invalid: " + ", ".join((why, *others))


def _figure(run: LoadRun) -> str:
    """Which of `FIGURES` the run is of."""
    if run.scenario != loadgen.SERVER:
        return run.scenario
    return f"{run.scenario} p{round(100 * run.settings.get('server_target_latency_percentile', 0.99))}"


def _turns(turns: Turns, format: str, margin: float) -> str:
    if turns.rate is None:
        return ""
    highest = [f"highest rate at {bound(turns)} (/s)", "over the baseline [95 %]"] if turns.bound else []
    titles = [
        "cell",
        "served by",
        "p50 (ms)",
        f"{turns.tail} (ms)",
        "p50 over the baseline [95 %]",
        f"{turns.tail} over the baseline [95 %]",
    ]
    counted = _counted(turns)
    energy = [f"energy of {' + '.join(counted)} (mJ/request)"] if counted else []
    lines = []
    for way in ordered(turns, turns.tail):
        figures = [turns.latency_ns(way, statistic) for statistic in (P50, turns.tail)]
        shown = [
            writing.milliseconds(estimate.value) if estimate else _without_latency(turns, way) for estimate in figures
        ]
        compared = [_ratio(turns, way, statistic, margin) for statistic in (P50, turns.tail)]
        more = [*(_held(turns, way) if highest else []), *([_energy(turns, way, counted)] if counted else [])]
        lines.append([way.cell.path, str(way.setup), *shown, *compared, *more])
    head = f"{rate(turns.rate)} requests/s, the same arrivals for all, over {turns.baseline.cell.path}"
    return f"{head}\n\n{_narrow_table(turns, [*titles, *highest, *energy], lines, format)}"


def _counted(turns: Turns) -> tuple[str, ...]:
    """What the machine counts the energy of, by the last launch that was stored with it; empty where it does not."""
    launches = [launch for of_way in turns.launches.values() for launch in of_way if launch.joules is not None]
    return max(launches, key=lambda launch: launch.time or "").joules_of if launches else ()


def _energy(turns: Turns, way: Way, counted: tuple[str, ...]) -> str:
    """The median over launches of the energy of a request, of those that counted the same."""
    joules = [
        launch.joules for launch in turns.launches[way] if launch.joules is not None and launch.joules_of == counted
    ]
    return rate(1000 * statistics.median(joules)) if joules else writing.DASH


def _plan(turns: Turns, format: str) -> str:
    if not turns.is_plan or turns.bound is None:
        return ""
    titles = ["cell", "served by", f"highest rate at {bound(turns)} (/s)", "over the first [95 %]"]
    lines = [[way.cell.path, str(way.setup), *_held(turns, way)] for way in ordered(turns, HIGHEST)]
    sentence = answer(turns) or f"no way to serve keeps {bound(turns)}"
    if not answer(turns) and any(turns.rate_seen(way) is not None for way in turns.launches):
        sentence = f"the first way to serve does not keep {bound(turns)}, so the others have no interval"
    return f"{_narrow_table(turns, titles, lines, format)}\n{sentence}\n"


def _sporadic(records: Sequence[Record], format: str) -> str:
    measured = [(record.cell.path, alone) for record in records if (alone := sporadic_of(record)) is not None]
    if not measured:
        return ""
    names = list(dict.fromkeys(name for _, each in measured for name in each.after_ns))
    titles = ["cell", "back to back (ms)", *(f"after {name} (ms)" for name in names if name != BUSY), "cold start (ms)"]
    lines = []
    for path, run in measured:
        medians = [_median(run.after_ns.get(name, ())) for name in (BUSY, *(name for name in names if name != BUSY))]
        lines.append([path, *map(writing.milliseconds, medians), writing.milliseconds(_median(run.cold_start_ns))])
    return _table(titles, lines, format)


def _median(values: Sequence[int]) -> float | None:
    return float(sorted(values)[(len(values) - 1) // 2]) if values else None


def _held(turns: Turns, way: Way) -> list[str]:
    highest, over = turns.highest_rate(way), turns.highest_over_baseline(way)
    if highest is None:
        return [without(turns, way), writing.DASH]
    is_baseline = way == turns.baseline
    shown = f"{rate(highest.value)} [{rate(highest.low)}, {rate(highest.high)}]"
    return [shown, "1" if is_baseline else writing.interval(over) if over else writing.DASH]


def _ratio(turns: Turns, way: Way, statistic: str, margin: float) -> str:
    if way == turns.baseline:
        return "1"
    compared = turns.over_baseline(way, statistic)
    if compared.ratio is None:
        return writing.DASH
    return f"{writing.interval(compared.ratio)} {compared.verdict(margin)}"


def _without_latency(turns: Turns, way: Way) -> str:
    """Why a service has no latency."""
    if way in turns.failures:
        return "failed"
    return _in_launches("cannot keep up", turns.lacking(way, P50), len(turns.launches[way])) or writing.DASH


def _in_launches(what: str, lacking: int, number: int) -> str:
    """What is so in some launches, such as `none in 1 of 4 launches`; empty where it is so in none."""
    if not lacking:
        return ""
    return what if lacking == number else f"{what} in {lacking} of {number} launches"


def without(turns: Turns, way: Way) -> str:
    """The highest rate of a service where there is no interval, since it or its baseline holds none."""
    lacking, number = turns.lacking(way, HIGHEST), len(turns.launches[way])
    if way in turns.failures:
        return "failed"
    falls = [launch.fall for launch in turns.launches[way] if launch.fall is not None]
    if falls and turns.bound is not None:
        return _in_launches(f"{turns.bound[0]} falls: {_told(falls[-1])}", len(falls), number)
    if 0 < lacking < number:
        return _in_launches("none", lacking, number)
    seen = turns.rate_seen(way)
    if seen is not None:
        return f"about {rate(seen)}"
    tried = [point for launch in turns.launches[way] for point in launch.curve]
    if turns.bound is not None and any(ns is not None and ns <= turns.bound[1] for _, ns in tried):
        return "not found"
    return f"too slow at {rate(min(requests_per_s for requests_per_s, _ in tried))}" if tried else "none"


def _told(points: Sequence[Point]) -> str:
    """Points of a curve, such as `25.6 ms at 49.4/s, 15.8 ms at 96.5/s`."""
    times = ["cannot keep up" if ns is None else f"{writing.milliseconds(ns, '.3g')} ms" for _, ns in points]
    return ", ".join(
        f"{time} at {rate(requests_per_s)}/s" for time, (requests_per_s, _) in zip(times, points, strict=True)
    )


def bound(turns: Turns) -> str:
    """What the highest rates keep, such as `p99 <= 20 ms`."""
    assert turns.bound is not None
    statistic, most_ns = turns.bound
    return f"{statistic} <= {most_ns / 1e6:g} ms"


def ordered(turns: Turns, statistic: str) -> Iterator[Way]:
    """The services, the best first; those without the figure last."""
    values = {way: turns.fits[statistic].latency_ns(str(way)) for way in turns.launches}
    yield from sorted(
        values, key=lambda way: (values[way] is None, (estimate.value if (estimate := values[way]) else 0.0), way)
    )


def _table(titles: Sequence[str], lines: Sequence[Sequence[str]], format: str) -> str:
    if format == "md":
        return writing.markdown(list(titles), [list(line) for line in lines], [True, *[False] * (len(titles) - 1)])
    broken = [[re.sub(r" (?=[\[(])", "\n", text) for text in line[1:]] for line in (titles, *lines)]
    return _named(titles[0], lines, broken[0], broken[1:])


def _narrow_table(turns: Turns, titles: Sequence[str], lines: Sequence[Sequence[str]], format: str) -> str:
    """A table of services, the first two columns of which are the cells and how they are served.

    In a terminal figures take few characters, and what is the same of all stands above them.
    """
    if format == "md":
        return _table(titles, lines, format)
    served = {str(way.setup) for way in turns.launches}
    requests = {f"/b{way.cell.batch}t{way.cell.threads}" for way in turns.launches}
    first, last = f"{turns.baseline.cell.task}/", requests.pop() if len(requests) == 1 else ""
    left_out = 2 if len(served) == 1 else 1
    above = f"Cells: {first}CELL{last}{f', each served by {served.pop()}' if left_out == 2 else ''}.\n\n"
    broken = [[_narrow(text) for text in line[left_out:]] for line in (titles, *lines)]
    names = [[line[0].removeprefix(first).removesuffix(last)] for line in lines]
    return printable(above, keep="\n") + _named(titles[0], names, broken[0], broken[1:])


def _narrow(text: str) -> str:
    """A figure and its verdict above its interval; other texts in short lines."""
    value, bracket, interval = re.sub(r"(\[.*\]) (\w+)$", r"\2 \1", text).partition(" [")
    return f"{textwrap.fill(value, FIGURE)}\n[{interval}" if bracket else textwrap.fill(text, TEXT)


def _named(title: str, lines: Sequence[Sequence[str]], titles: Sequence[str], texts: Sequence[Sequence[str]]) -> str:
    """A table for a terminal of what the cells that `lines` begin with have beside them."""
    room = max(LEAST_NAME, writing.room_for_names(titles, texts))
    named = [(writing.wrap_name(line[0], room), *own) for line, own in zip(lines, texts, strict=True)]
    return writing.plain((title, *titles), named, format="table")


def _raw(turns: Turns, margin: float) -> dict[str, object]:
    return {
        "baseline": turns.baseline.cell.path,
        "rate": turns.rate,
        "bound": turns.bound,
        "services": [
            {
                "cell": way.cell.path,
                **way.setup.as_fields(),
                "failed": turns.failures.get(way),
                "latency_ns": {name: turns.latency_ns(way, name) for name in STATISTICS if name != HIGHEST},
                "over_baseline": {name: turns.over_baseline(way, name).ratio for name in STATISTICS},
                "verdict": {name: turns.over_baseline(way, name).verdict(margin) for name in STATISTICS},
                "highest_rate": turns.highest_rate(way),
                "fall": next((launch.fall for launch in reversed(launches) if launch.fall is not None), None),
                "joules": [launch.joules for launch in launches],
                "joules_of": _counted(turns),
            }
            for way, launches in turns.launches.items()
        ],
    }


def _raw_record(record: Record) -> dict[str, object]:
    return {"cell": record.cell.path, "runs": list(last_runs(record).values()), "sporadic": sporadic_of(record)}
