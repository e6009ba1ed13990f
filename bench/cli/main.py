"""The command line: the only place that prints and exits."""

from __future__ import annotations

import dataclasses
import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.api.errors import BenchError, InputError
from bench.cli import check, compare, explain, graph, pick, profile, units
from bench.cli import report as report_command

if TYPE_CHECKING:
    from rich.console import Console

    from bench.records.rows import Row

app = typer.Typer(
    help="Which deployment of a trained model to ship on this machine, what it costs in accuracy, and how sure we are.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
FIRST_TABLE = "1m"
"""Time for measuring a model of one's own, unless something else is said."""
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class Format(enum.StrEnum):
    """Formats of `bench show`."""

    table = "table"
    md = "md"
    csv = "csv"
    json = "json"
    latex = "latex"
    parquet = "parquet"


Globs = Annotated[
    list[str] | None,
    typer.Argument(help="Cells, as globs over task/source/exporter/variant/runtime/provider/b1t1.", show_default=False),
]
Results = Annotated[Path, typer.Option("--results", help="Folder of the results.")]


@app.command("list")
def list_() -> None:
    """Tasks, exporters, variants, runtimes and providers: usable, or why not and what would fix it."""
    from bench.report.listing import listing

    typer.echo(listing(), nl=False)


@app.command()
def run(
    globs: Globs = None,
    *,
    sweep: Annotated[
        str | None, typer.Option(help="A named sweep: quick, full, scaling, threads, seed or everything.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="A model of your own: .onnx, .tflite, .keras, .pt, .pt2, a .py with a build(), or a folder."),
    ] = None,
    dataset: Annotated[
        Path | None, typer.Option(help="Its samples: an .npz, a folder of them, or a .py with samples and metrics.")
    ] = None,
    dim: Annotated[list[str] | None, typer.Option(help="Size of a dimension it leaves open, as height=224.")] = None,
    shape: Annotated[list[str] | None, typer.Option(help="Shape of an input of it, as image=1x3x224x224.")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Let code that the model's file holds run.")] = False,
    budget: Annotated[
        str | None,
        typer.Option(help="Time for measuring, such as 10m; 1m by default with --model alone, else no limit."),
    ] = None,
    margin: Annotated[str, typer.Option(help="Half-width of the ratio's interval to aim at.")] = "2%",
    launches: Annotated[int, typer.Option(min=1, help="Most launches of a cell.")] = 6,
    timeout: Annotated[str | None, typer.Option(help="Time for each step of a cell, such as 5m.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="Memory for each process, such as 4GiB; half of the machine's by default.")
    ] = None,
    results: Results = Path("results"),
    force: Annotated[bool, typer.Option("--force", help="Measure again what is already settled.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the cells and stop.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 when a row failed.")] = False,
) -> None:
    """Run a sweep, or measure one model; what is already settled is not measured again."""
    from rich.console import Console

    from bench.api import loading
    from bench.cli import progress
    from bench.cli.interrupts import Heeding
    from bench.graphs.file.text import printable
    from bench.measure import machine
    from bench.measure.block import Method
    from bench.measure.limits import Limits
    from bench.measure.rounds import Goal
    from bench.pipeline import sweeps
    from bench.pipeline.sweep import Options, Sweep
    from bench.records import assemble
    from bench.records.store import Store
    from bench.tasks import adopt

    said = adopt.Options(dataset=dataset, dims=tuple(dim or ()), shapes=tuple(shape or ()), trust=trust)
    if model is not None:
        adopted = adopt.adopt(model, said)
        for note in adopted.notes:
            _say(printable(note))
        if not globs and sweep is None:
            sweep, budget = "full", budget or FIRST_TABLE
        globs = [f"{adopted.name}/{glob}" for glob in globs or ["*"]]
    elif said != adopt.Options():
        raise InputError("--dataset, --dim, --shape and --trust are about a model of your own; name it with --model")
    for name in dict.fromkeys(glob.partition("/")[0] for glob in globs or []):
        if name not in loading.find("models"):
            adopt.recall(name)  # a model of one's own, measured before
    cells = sweeps.select(globs or [], sweep)
    if dry_run:
        typer.echo("\n".join(cell.path for cell in cells))
        return
    step_s = units.seconds(timeout) if timeout else None
    limits = Limits.of(step_s=step_s, memory_bytes=units.size_bytes(memory) if memory else None)
    goal = Goal(
        margin=units.share(margin),
        min_launches=min(Goal.min_launches, launches),
        max_launches=launches,
        budget_s=units.seconds(budget) if budget else None,
    )
    options = Options(
        method=Method(limits=limits), goal=goal, force=force, across_threads=sweep == sweeps.threads.__name__
    )
    store = Store(results, machine.name())
    paths = [cell.path for cell in cells]

    def rows() -> list[Row]:
        found = {row.cell: row for row in assemble.rows(store.current_records(), margin=goal.margin)}
        return [found[path] for path in paths if path in found]

    try:
        with progress.observer(Console(stderr=True), rows) as observer, Heeding(observer) as watch:
            Sweep(store, options, watch).run(cells)
            watch.heed()
    except KeyboardInterrupt:
        _say("interrupted; everything finished is kept, and the same command goes on from there")
        raise typer.Exit(INTERRUPTED) from None
    shown = rows()
    if options.across_threads:
        _show_sweep("threads", shown, results, goal.margin, Format.table, None)
    else:
        _print_table(shown)
    if strict and any(row.status == "failed" or row.fidelity == "broken" for row in shown):
        raise typer.Exit(1)


@app.command()
def show(
    globs: Globs = None,
    *,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.table,
    baseline: Annotated[str | None, typer.Option(help="Cell to compare with, instead of each task's own.")] = None,
    columns: Annotated[str | None, typer.Option(help="Keys of a row, joined by commas.")] = None,
    sort: Annotated[str | None, typer.Option(help="Key of a row to sort by; fastest first by default.")] = None,
    sweep: Annotated[str | None, typer.Option(help="`seed` or `threads`: the sweep's own tables.")] = None,
    margin: Annotated[str, typer.Option(help="What counts as noise.")] = "2%",
    results: Results = Path("results"),
    output: Annotated[Path | None, typer.Option(help="File to write instead of printing.")] = None,
) -> None:
    """The table, from stored results."""
    from bench.records import folder as stored
    from bench.records.rows import COLUMNS
    from bench.records.store import write_atomically
    from bench.report import frame, tables

    rows = stored.rows(results, globs or (), margin=units.share(margin), baseline=baseline)
    if sweep is not None:
        _show_sweep(sweep, rows, results, units.share(margin), format, output)
        return
    chosen = tuple(columns.split(",")) if columns else None
    if format is Format.table and output is None:
        _print_table(rows, chosen, sort)
        return
    if format is Format.parquet:
        if output is None:
            raise InputError("Parquet is no text to print; name a file with --output")
        selection = tables.select(rows, columns=chosen, sort=sort)
        write_atomically(output, frame.parquet(selection.rows, selection.columns or COLUMNS))
        return
    text = tables.render(rows, format=format.value, columns=chosen, sort=sort)
    if output is None:
        typer.echo(text)
    else:
        write_atomically(output, text + "\n")


@app.command()
def best(
    *,
    max_metric_drop: Annotated[str, typer.Option(help="Largest share of the metric that may be lost.")] = "1%",
    margin: Annotated[str, typer.Option(help="What counts as noise.")] = "2%",
    results: Results = Path("results"),
    into: Annotated[
        Path | None, typer.Option(help="Markdown file to write the table into, between its two marks.")
    ] = None,
) -> None:
    """The fastest deployment of each task that keeps its metric, against each framework's default."""
    from bench.decisions import best
    from bench.records import folder as stored
    from bench.records.store import write_atomically
    from bench.report import best as report

    records = stored.records(results)
    most = units.share(max_metric_drop, zero=True)
    found = best.best(records, max_metric_loss=most, margin=units.share(margin))
    if not found and into is None:  # no error: a sweep that was stopped early has none
        _say("no cell that was timed keeps its metric; `bench show` lists them all")
    elif into is None:
        typer.echo(report.render(found, format="table"), nl=False)
    else:
        write_atomically(into, report.put_into(into, report.render(found, format="md")))


@app.command()
def plot(
    globs: Globs = None,
    *,
    results: Results = Path("results"),
    output: Annotated[Path | None, typer.Option(help="Folder for the pictures; beside the results by default.")] = None,
) -> None:
    """Figures as PNG and SVG: latency, accuracy against latency, memory and size."""
    from bench.records import assemble
    from bench.records import folder as stored
    from bench.report.figures import plots

    rows = stored.rows(results, globs or ())
    higher = assemble.higher_is_better(stored.records(results))
    paths = plots.draw(rows, output or stored.machine_folder(results) / "plots", higher_is_better=higher)
    if not paths:
        raise InputError("nothing to draw: no cell has been timed; `bench run` measures")
    typer.echo("\n".join(str(path) for path in paths))


@app.command()
def roofline(
    globs: Globs = None,
    *,
    results: Results = Path("results"),
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.table,
    output: Annotated[Path | None, typer.Option(help="File to write instead of printing.")] = None,
) -> None:
    """This machine's peaks, measured anew in half a minute, and how near each cell comes to them."""
    from bench.measure import machine, peaks
    from bench.records import folder as stored
    from bench.records import peaks as stored_peaks
    from bench.records.store import write_atomically
    from bench.report import roofline as report

    folder = stored.machine_folder(results)
    threads = sorted({row.threads for row in stored.rows(results, globs or ())})
    if folder.name == machine.name():
        with _console().status("measuring this machine's peaks"):
            for number in threads:
                stored_peaks.keep(folder, number, peaks.ask(number))
    rows = stored.rows(results, globs or ())
    text = report.render(rows, stored_peaks.read(folder), format=format.value)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(output, text)


app.command("compare")(compare.compare)
app.command("pick")(pick.pick)
app.command("explain")(explain.explain)
app.command("check")(check.check)
app.command("report")(report_command.report)
app.command("profile")(profile.profile)
app.add_typer(graph.app, name="graph")


@app.command()
def doctor() -> None:
    """What this machine can run, and how noisy it is just now."""
    from bench.report import doctor as examination

    with _console().status("measuring this machine's noise"):
        text = examination.examine()
    typer.echo(text, nl=False)


def _show_sweep(sweep: str, rows: list[Row], results: Path, margin: float, format: Format, output: Path | None) -> None:
    """The tables of a sweep that has its own."""
    from bench.api.cell import Cell
    from bench.decisions.threads import scalings
    from bench.records import assemble
    from bench.records import folder as stored
    from bench.records.store import write_atomically
    from bench.report import experiments, threads

    if sweep not in ("seed", "threads"):
        raise InputError(f"the sweeps 'seed' and 'threads' have tables of their own, not {sweep!r}")
    records = stored.records(results)
    if sweep == "seed":
        text = experiments.render(assemble.rows(records, margin=margin), records, format=format.value)
    else:
        wanted = {dataclasses.replace(Cell.from_path(row.cell), threads=1) for row in rows}
        found = assemble.rows(records, margin=margin)
        sound = {row.cell for row in found if row.status == "ok" and row.fidelity != "broken"}
        chosen = {path: record for path, record in records.items() if path in sound}
        chosen = {path: item for path, item in chosen.items() if dataclasses.replace(item.cell, threads=1) in wanted}
        text = threads.render(scalings(chosen, margin=margin), format=format.value)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(output, text)


def _print_table(rows: list[Row], columns: tuple[str, ...] | None = None, sort: str | None = None) -> None:
    from bench.report import tables

    _console().print(tables.terminal_table(rows, columns=columns, sort=sort))


def _console() -> Console:
    from rich.console import Console

    return Console()


def _say(message: str) -> None:
    print(f"bench: {message}", file=sys.stderr)


def _os_line(error: OSError) -> str:
    from bench.api import cache

    if not error.filename:
        return str(error)
    fix = " (BENCH_CACHE can name another folder)" if str(error.filename).startswith(str(cache.folder())) else ""
    return f"cannot use {error.filename}: {error.strerror}{fix}"


def main() -> None:
    """Run a command; a known error becomes one line and exit code 2."""
    # What Typer raises at wrong usage. It exports the one class only, and has the others from click or from itself.
    usage_error: type[Exception] = typer.BadParameter.__mro__[2]
    try:
        code = app(standalone_mode=False)
    except BenchError as error:
        _say(str(error))
        code = 2
    except usage_error as error:
        _say(error.format_message() or "no command given; `bench --help` lists them")  # type: ignore[attr-defined]
        code = 2
    except typer.Abort:
        code = INTERRUPTED
    except BrokenPipeError:
        code = 0
    except OSError as error:  # a cache or a pipe that cannot be written, or a model that cannot be read
        _say(_os_line(error))
        code = 2
    sys.exit(code)
