"""`bench pick`: the cell to ship under constraints, saved with what it takes to run it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli import options, units

UNDECIDED = 1
"""Exit code where the data cannot tell which cell to pick."""


def pick(
    globs: Annotated[
        list[str],
        typer.Argument(help="A task, or cells of one, as globs over their paths.", show_default=False, metavar="TASK"),
    ],
    *,
    max_metric_drop: Annotated[
        str | None, typer.Option(help="Largest share of the metric that may be lost, with 95 % confidence, such as 1%.")
    ] = None,
    max_size: Annotated[str | None, typer.Option(help="Largest file, such as 10MB.")] = None,
    max_memory: Annotated[
        str | None, typer.Option(help="Most memory that the process may take, its packages included, such as 300MiB.")
    ] = None,
    max_latency: Annotated[str | None, typer.Option(help="Largest median latency, such as 5ms.")] = None,
    max_ttft: Annotated[
        str | None, typer.Option(help="Of a decoder: largest median time to first token, such as 50ms.")
    ] = None,
    min_tokens_per_s: Annotated[
        float | None, typer.Option(min=1e-6, help="Of a decoder: least rate of output tokens, such as 300.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Batch of the request; the one with most results by default.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads of the request; those with most results by default.")
    ] = None,
    tolerance: Annotated[str, typer.Option(help="How much slower than the fastest it may be, at most.")] = "5%",
    margin: options.Margin = "2%",
    everywhere: Annotated[
        bool,
        typer.Option(
            "--everywhere", help="One deployment for all machines whose results are in the folder; saves nothing."
        ),
    ] = False,
    results: options.Results = options.RESULTS,
    output: Annotated[
        Path | None, typer.Option(help="Folder to save it in; picks/TASK in the folder of the results by default.")
    ] = None,
) -> None:
    """The deployment to ship under constraints: its artifact, how it was made and code that runs it.

    Of the cells that may be the fastest as far as the data can tell, the smallest. Exits with 1 where none is sure
    to be within the tolerance, and says which launches would decide.
    """
    from bench.decisions import deployment, load
    from bench.decisions import pick as deciding
    from bench.measure.limits import Limits
    from bench.records.chance import warnings
    from bench.report import pick as report

    constraints = deciding.Constraints(
        max_metric_loss=units.share(max_metric_drop, zero=True) if max_metric_drop else None,
        max_size_bytes=units.size_bytes(max_size) if max_size else None,
        max_memory_bytes=units.size_bytes(max_memory) if max_memory else None,
        max_latency_ns=1e9 * units.seconds(max_latency) if max_latency else None,
        max_ttft_ns=1e9 * units.seconds(max_ttft) if max_ttft else None,
        min_tokens_per_s=min_tokens_per_s,
    )
    if everywhere:
        from bench.decisions import everywhere as deciding_everywhere
        from bench.report import everywhere as everywhere_report

        every = options.read_all(results, margin=units.share(margin))
        of_each = {name: one.chosen(globs) for name, one in every.items()}
        of_each = deciding_everywhere.of_one_request(of_each, batch, threads)
        options.write(everywhere_report.render(deciding_everywhere.choose(every, of_each, constraints)), None)
        return
    most = units.share(tolerance)
    stored = options.read(results, margin=units.share(margin))
    rows = deciding.of_one_request(stored.chosen(globs), batch, threads)
    options.say_notes(warnings(rows))
    choice = deciding.choose(stored.measurements, rows, constraints, tolerance=most)
    plan = load.plan_of(stored.records, choice.group.task)
    tables = [report.front(choice, constraints), report.services(choice, plan)]
    options.write("".join(tables) + report.verdict(choice, results, most), None)
    if choice.picked is None:
        raise typer.Exit(UNDECIDED)
    target = output or results / "picks" / choice.picked.task
    record, limits = stored.records[choice.picked.cell], Limits.of(step_s=None, memory_bytes=None)
    request = {**{option: limit for option, (_, limit) in constraints.limits().items()}, "--tolerance": most}
    served = None if plan is None else load.as_service(plan, record.cell)
    saved = deployment.save(target, choice.picked, record, request=request, limits=limits, service=served)
    options.tell("", f"saved in {target}: {', '.join(path.name for path in saved)}")
    options.tell(f"  python {saved[-1]}   runs it on the held-out samples")
