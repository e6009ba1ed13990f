"""`bench pick`: the cell to ship under constraints, saved with what it takes to run it."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli import units

if TYPE_CHECKING:
    from bench.decisions.pick import Choice, Constraints
    from bench.records.rows import Row

UNDECIDED = 1
"""Exit code when the data cannot tell."""
NAME = 40
"""Characters of a name on one line, so that the table fits a usual terminal."""


def pick(
    globs: Annotated[
        list[str],
        typer.Argument(help="A task, or cells of one, as globs over their paths.", show_default=False, metavar="TASK"),
    ],
    *,
    max_metric_drop: Annotated[
        str | None, typer.Option(help="Largest share of the metric that may be lost, such as 1%.")
    ] = None,
    max_size: Annotated[str | None, typer.Option(help="Largest file, such as 10MB.")] = None,
    max_memory: Annotated[
        str | None, typer.Option(help="Most memory that the process may take, its packages included, such as 300MiB.")
    ] = None,
    max_latency: Annotated[str | None, typer.Option(help="Largest median latency, such as 5ms.")] = None,
    batch: Annotated[
        int | None, typer.Option(help="Batch of the request; the one with most results by default.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of it; likewise.")] = None,
    tolerance: Annotated[str, typer.Option(help="How much slower than the fastest it may be, at most.")] = "5%",
    margin: Annotated[str, typer.Option(help="What counts as noise.")] = "2%",
    results: Annotated[Path, typer.Option("--results", help="Folder of the results.")] = Path("results"),
    output: Annotated[
        Path | None, typer.Option(help="Folder to save it in; picks/TASK in the folder of the results by default.")
    ] = None,
) -> None:
    """The deployment to ship under constraints: its artifact, how it was made and code that runs it.

    Of the cells that may be the fastest as far as the data can tell, the smallest. Exits with 1 where none is sure
    to be within the tolerance, and says which launches would decide.
    """
    from bench.api.errors import InputError
    from bench.decisions import deployment
    from bench.decisions import pick as report
    from bench.measure.limits import Limits
    from bench.records import folder as stored

    constraints = report.Constraints(
        max_metric_loss=units.share(max_metric_drop, zero=True) if max_metric_drop else None,
        max_size_bytes=units.size_bytes(max_size) if max_size else None,
        max_memory_bytes=units.size_bytes(max_memory) if max_memory else None,
        max_latency_ns=1e9 * units.seconds(max_latency) if max_latency else None,
    )
    share = units.share(margin)
    rows = stored.rows(results, globs, margin=share)
    tasks = sorted({row.task for row in rows})
    if len(tasks) > 1:
        raise InputError(f"pick for one task at a time; these cells are of {', '.join(tasks)}")
    rows = _of_one_request(rows, batch, threads)
    records = stored.records(results)
    choice = report.choose(records, rows, constraints, tolerance=units.share(tolerance), margin=share)
    typer.echo(_front(choice, constraints), nl=False)
    if choice.picked is None:
        typer.echo(_undecided(choice, results, units.share(tolerance)))
        raise typer.Exit(UNDECIDED)
    typer.echo(_picked(choice))
    folder = output or results / "picks" / choice.picked.task
    request = {option: limit for option, (_, limit) in constraints.limits().items()}
    saved = deployment.save(
        folder,
        choice.picked,
        records[choice.picked.cell],
        request={**request, "--tolerance": units.share(tolerance)},
        limits=Limits.of(step_s=None, memory_bytes=None),
    )
    typer.echo(f"\nsaved in {folder}: {', '.join(path.name for path in saved)}")
    typer.echo(f"  python {saved[-1]}   runs it on the held-out samples")


def _of_one_request(rows: list[Row], batch: int | None, threads: int | None) -> list[Row]:
    """The rows of the batch and threads that were named, or else that most rows are of which were timed."""
    from bench.api.errors import InputError
    from bench.records import ranking

    there = Counter((row.batch, row.threads) for row in rows if ranking.is_ranked(row))
    fitting = {key: number for key, number in there.items() if batch in (None, key[0]) and threads in (None, key[1])}
    if not fitting:
        known = ", ".join(f"--batch {one} --threads {other}" for one, other in sorted(there)) or "none"
        raise InputError(f"no cell was timed and is right for that request; there are: {known}")
    chosen = max(fitting, key=lambda key: (fitting[key], -key[0], -key[1]))
    return [row for row in rows if (row.batch, row.threads) == chosen]


def _front(choice: Choice, constraints: Constraints) -> str:
    from bench.records import ranking
    from bench.report import columns, tables

    ranked = sum(map(ranking.is_ranked, choice.group.rows))
    limits = f" and keep to {', '.join(constraints.limits())}" if constraints.limits() else ""
    title = (
        f"{choice.group.title}: {len(choice.qualified)} of {ranked} timed cells are right{limits}.\n"
        f"Of these, no other beats {len(choice.front)} in latency, size, memory and metric at once:"
    )
    lines = []
    for row in choice.front:
        metric = columns.DASH if row.metric is None else f"{row.metric:.4g}"
        figures = (_milliseconds(row), _interval(row), _megabytes(row.size_bytes), _megabytes(row.peak_rss_bytes))
        lines.append((tables.wrap_name(ranking.short_name(row), NAME), *figures, metric))
    metric_name = next((row.metric_name for row in choice.front if row.metric_name), "metric")
    titles = ("cell", "latency p50 (ms)", "over the baseline", "size (MB)", "peak memory (MB)", metric_name)
    return f"{title}\n\n{tables.plain(titles, lines, format='table')}\n"


def _milliseconds(row: Row) -> str:
    return f"{(row.latency_p50_ns or 0.0) / 1e6:.4g}"


def _interval(row: Row) -> str:
    return f"{row.ratio:.3f} [{row.ratio_low:.3f}, {row.ratio_high:.3f}]"


def _megabytes(size: int | None) -> str:
    from bench.report import columns

    return columns.DASH if size is None else f"{size / 1e6:.4g}"


def _picked(choice: Choice) -> str:
    row = choice.picked
    assert row is not None
    lines = [f"pick: {row.cell}"]
    others = [other for other in choice.contenders if other is not row]
    if others:
        lines.append(
            f"  {len(others)} more may be as fast; of those that are fast enough for sure, its file is the smallest"
        )
        lines.append(f"  it is at most {100 * choice.regret:.2g} % slower than the fastest, with 95 % confidence")
    else:
        lines.append("  every other is slower" if len(choice.qualified) > 1 else "  no other qualifies")
    return "\n".join(lines)


def _undecided(choice: Choice, results: Path, tolerance: float) -> str:
    further = choice.further
    assert further is not None
    cells = " ".join(shlex.quote(cell) for cell in further.cells)
    folder = "" if results == Path("results") else f" --results {shlex.quote(str(results))}"
    lines = [
        f"no pick: between {len(further.cells)} cells the data cannot tell; none is sure to be at most "
        f"{100 * tolerance:.2g} % slower than the others."
    ]
    enough = math.ceil(100 * choice.regret) if math.isfinite(choice.regret) else 100
    if enough < 100:
        lines.append(f"--tolerance {enough}% would do" + (", or these launches:" if further.launches else "."))
    elif further.launches:
        lines.append("These launches would decide:")
    if further.launches is None:
        lines.append("Launches alone would not decide soon: they differ too much from one process to the next.")
    else:
        lines.append(f"  bench run {cells} --launches {further.launches} --margin 0.1%{folder}")
    return "\n".join(lines)
