"""`bench blame`: which operator made it slower, or wrong, with a reproducer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.api.errors import InputError
from bench.cli import options, units

if TYPE_CHECKING:
    from bench.features.blame.sides import Pair
    from bench.measure.limits import Limits
    from bench.tasks.adopt import Options

_NOTHING = 1
"""Exit code where no difference is clear."""

_Names = Annotated[
    list[str],
    typer.Argument(
        help="A and B: cells, or files of two models. One alone with --with or --python.",
        metavar="A [B]",
        show_default=False,
    ),
]
_Runtime = Annotated[str | None, typer.Option(help="Runtime of files, as in a cell; the usual one by default.")]
_Provider = Annotated[str | None, typer.Option(help="Provider of files, as in a cell.")]
_Drift = Annotated[bool, typer.Option("--drift", help="Look for other outputs instead of a slowdown.")]
_Tolerance = Annotated[
    str | None,
    typer.Option(help="Error that is no drift, as a share of a tensor's magnitude; the task's own by default."),
]
_Public = Annotated[bool, typer.Option("--public", help="Random weights in the reproducer, if the effect stays.")]
_Witness = Annotated[bool, typer.Option("--witness", help="Count the part's instructions, too, by valgrind.")]
_Budget = Annotated[str, typer.Option(help="Time for a slowdown, but for the reproducer and --public and --witness.")]
_Output = Annotated[Path, typer.Option(help="Folder in which the reproducer gets a folder of its own.")]


def blame(
    names: _Names,
    *,
    versions: options.With = None,
    python: options.Pythons = None,
    yes: options.Yes = False,
    browser: options.Browser = None,
    runtime: _Runtime = None,
    provider: _Provider = None,
    dataset: options.Dataset = None,
    dim: options.Dims = None,
    shape: options.Shapes = None,
    trust: options.Trust = False,
    drift: _Drift = False,
    tolerance: _Tolerance = None,
    public: _Public = False,
    witness: _Witness = False,
    budget: _Budget = "5m",
    output: _Output = Path("blame"),
    timeout: options.Timeout = None,
    memory: options.Memory = None,
    format: options.Tables = "table",
) -> None:
    """Which operator makes B slower than A, or wrong? Suspects are cut out of the model and run under both.

    A and B are two cells, two files, or one with two versions of a package (--with). The part that explains most is
    written as a reproducer: a small model with inputs and a script. Exits with 1 where no difference is clear.
    """
    from bench.features.blame import answer, inquiry
    from bench.measure.limits import Limits
    from bench.plugins import catalog

    begin_s, budget_s = time.monotonic(), units.seconds(budget)
    step_s = units.seconds(timeout) if timeout else None
    limits = Limits.of(step_s=step_s, memory_bytes=units.size_bytes(memory) if memory else None)
    description = options.own_model(dataset, dim, shape, trust)
    pair = _pair(names, versions, python, description, (runtime, provider), limits, may_be_large=yes)
    options.say_notes(pair.notes)
    most = units.share(tolerance, zero=True) if tolerance else catalog.task(pair.samples.task).close
    with inquiry.opened(pair, limits, options.say) as both:
        result: answer.Blame | answer.DriftBlame
        if drift:
            result = inquiry.wrong(both, tolerance=most, tell=options.say)
        else:
            result = inquiry.slower(both, begin_s=begin_s, budget_s=budget_s, tell=options.say)
        result = inquiry.reproduce(both, result, output, is_public=public, has_witness=witness)
    options.write(answer.render(result, format=format), None)
    if not result.is_clear:
        raise typer.Exit(_NOTHING)


def _pair(
    names: list[str],
    versions: list[str] | None,
    python: list[Path] | None,
    description: Options,
    where: tuple[str | None, str | None],
    limits: Limits,
    *,
    may_be_large: bool,
) -> Pair:
    """The two sides that a command line names.

    Raises:
        InputError: they are no two sides.
    """
    from bench.features.blame import naming

    wanted = options.environments(versions, python)
    if len(names) > 2 or len(wanted) > 2 or (len(names) == 2 and wanted) or (len(names) == 1 and not wanted):
        raise InputError("name two sides: A and B, or one of them with --with PACKAGE==VERSION once or twice")
    setting = naming.Setting(
        description=description, runtime=where[0], provider=where[1], limits=limits, may_be_large=may_be_large
    )
    return naming.versions(names[0], wanted, setting) if wanted else naming.two(names[0], names[1], setting)


COMMANDS = {"Maintain": {"blame": blame}}
"""The command, under its heading of `bench --help`."""
