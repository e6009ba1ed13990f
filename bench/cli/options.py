"""Options and arguments that several commands take: each is defined once, with its help, and read once."""

from __future__ import annotations

import gc
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
import typer.core

from bench.api import loss_units
from bench.api.errors import InputError
from bench.api.loss_units import DB, SHARE, AllowedLoss
from bench.api.printable import printable
from bench.cli import units, waiting
from bench.onnxfile.shapes import size_options

if TYPE_CHECKING:
    from bench.api.cell import Cell
    from bench.pipeline.environment_request import Asked
    from bench.pipeline.graph_files import GraphFile
    from bench.records.folder import Results as Stored
    from bench.records.rows import Row
    from bench.tasks.adopt import Options

_CELLS = "Cells, as globs over task/source/exporter/variant/runtime/provider/b1t1."
RESULTS = Path("results")
MAX_METRIC_DROP = AllowedLoss().option(SHARE, DB)
"""What may be lost of the metric by default, as `--max-metric-drop` takes it."""
NO_LIMIT = "any"
"""Value of `--max-metric-drop` without a limit."""
STANDARD_OUTPUT = ("-", "/dev/stdout")
LAYOUT = "\n\t\N{NO-BREAK SPACE}"
"""Characters of the layout of a whole text; in the names and reasons within it they are escapes already."""

Globs = Annotated[list[str] | None, typer.Argument(help=_CELLS, show_default=False)]
Results = Annotated[Path, typer.Option("--results", help="Folder of the results.")]
Output = Annotated[Path | None, typer.Option(help="File to write instead of printing.")]
Margin = Annotated[str, typer.Option(help="Largest difference that counts as noise, as a share.")]
Tolerance = Annotated[str, typer.Option(help="How much slower than the fastest it may be, at most.")]
Tables = Annotated[Literal["table", "md", "json"], typer.Option("--format", help="Format to print.")]
Plain = Annotated[Literal["table", "json"], typer.Option("--format", help="Format to print.")]
Rows = Annotated[
    Literal["table", "md", "csv", "json", "latex", "parquet"], typer.Option("--format", help="Format to print.")
]

Own = Annotated[
    Path | None,
    typer.Option("--model", help="A model of your own: a file or a folder, or hf:org/name@revision of the hub."),
]
Offline = Annotated[
    bool, typer.Option("--offline", help="Fetch nothing: of models of the hub, use what was fetched before.")
]
Dataset = Annotated[
    Path | None, typer.Option(help="Samples of the model: an .npz, a folder, or a .py with samples and metrics.")
]
Dims = Annotated[
    list[str] | None, typer.Option("--dim", help="Size of a dimension that the model leaves open, as height=224.")
]
Shapes = Annotated[
    list[str] | None, typer.Option("--shape", help="Shape of an input, as image=1x3x224x224 or tokens=1x16:int64.")
]
Metric = Annotated[
    str | None,
    typer.Option(help="Metric of --dataset's targets: accuracy, accuracy@0.5 (threshold of one score) or rmse."),
]
Judged = Annotated[
    str | None, typer.Option("--output", help="The model's output that is compared with the targets of --dataset.")
]
Trust = Annotated[bool, typer.Option("--trust", help="Let code that the model's file holds run.")]

Timeout = Annotated[str | None, typer.Option(help="Time for each step of a cell, such as 5m.")]
Memory = Annotated[
    str | None, typer.Option(help="Memory for each process, such as 4GiB; half of the machine's by default.")
]

Model = Annotated[
    Path, typer.Argument(help="An .onnx file, or a model of a format that `bench run` takes.", show_default=False)
]
Inputs = Annotated[
    Path | None, typer.Option(help="Arrays to run on where shapes depend on data: an .npz file, by input name.")
]
Observe = Annotated[bool, typer.Option(help="Run the model once where shapes depend on data.")]

With = Annotated[
    list[str] | None,
    typer.Option(
        "--with", help="Run with another version of a package, as onnxruntime==1.22.0 or ./mine.whl.", metavar="TEXT"
    ),
]
Pythons = Annotated[
    list[Path] | None, typer.Option("--python", help="Run with another environment's interpreter, .venv/bin/python.")
]
Blame = Annotated[
    bool, typer.Option("--blame", help="Find the part of the model that makes the worst one slower, in 5 minutes.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Download packages and models of gigabytes without asking.")]


def _use_browser(path: Path | None) -> Path | None:
    """Have runtimes in a page use a browser, in this process and all workers."""
    if path is not None:
        from bench.api.program import BROWSER  # only here: its import would take time

        os.environ[BROWSER] = str(path.absolute()) if path.exists() else str(path)
    return path


Browser = Annotated[
    Path | None,
    typer.Option(
        "--browser", help="Chromium for runtimes in a page; that of the PATH by default.", callback=_use_browser
    ),
]


class TellsFormats(typer.core.TyperCommand):
    """A command with the option `Own`, whose help names the formats that there are.

    The formats are imported for the help alone: that takes longer than to start a command.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        from bench.tasks import formats

        (model,) = (
            option for option in self.params if isinstance(option, typer.core.TyperOption) and "--model" in option.opts
        )
        model.help = f"A model of your own: {formats.kinds()}; or hf:org/name@revision:path of the Hugging Face Hub."
        super().format_help(ctx, formatter)


def here(model: Path, trust: bool, *, may_be_large: bool = False, is_offline: bool = False) -> Path:
    """The path of a model that a command names: a model of the hub is fetched into the cache, any other path stays.

    Args:
        model: value of the option or the argument that names it.
        trust, may_be_large, is_offline: values of the options `Trust`, `Yes` and `Offline`.

    Raises:
        InputError: there is no such model on the hub, or it cannot be fetched.
    """
    if not str(model).startswith("hf:"):  # `hub.reference.is_named`, whose import would take time
        return model
    from bench.tasks.hub.fetch import Asked, fetch

    request = Asked(trust=trust, may_be_large=may_be_large, is_offline=is_offline)
    with waiting.reporting(f"fetching {model}", say):
        return fetch(str(model), request, say)


def own_model(
    dataset: Path | None,
    dim: list[str] | None,
    shape: list[str] | None,
    trust: bool,
    metric: str | None = None,
    output: str | None = None,
    *,
    is_named: bool = True,
) -> Options:
    """The options that describe a user's own model, besides its path.

    Args:
        dataset, dim, shape, trust: values of the options `Dataset`, `Dims`, `Shapes` and `Trust`.
        metric, output: values of the options `Metric` and `Judged`.
        is_named: whether the command line names a model.

    Raises:
        InputError: an option describes a model that is not named, a text is not a shape, a size or a metric, or there
            are no targets for the metric.
    """
    from bench.tasks.adopt import Options
    from bench.tasks.metric_options import Wanted

    options = Options(
        dataset=dataset,
        dims=tuple(dim or ()),
        shapes=tuple(shape or ()),
        trust=trust,
        metric=metric,
        output=output,
    )
    if not is_named and options != Options():
        raise InputError(
            "--dataset, --metric, --output, --dim, --shape and --trust are about a model of your own; name it with "
            "--model"
        )
    if Wanted.of(metric, output) != Wanted() and dataset is None:
        raise InputError("--metric and --output are about the targets of a data set; name it with --dataset")
    size_options.dims_from(options.dims)
    size_options.shapes_from(options.shapes)
    return options


def with_versions(
    cells: Sequence[Cell], versions: list[str] | None, pythons: list[Path] | None, *, may_be_large: bool
) -> list[Cell]:
    """The cells of other versions that the options `With` and `Pythons` ask for; without these options, the cells.

    Raises:
        InputError: a value cannot be read, or concerns none of the cells.
    """
    if not versions and not pythons:
        return list(cells)
    from bench.pipeline.versions import cells_with

    return cells_with(cells, environments(versions, pythons), may_be_large=may_be_large)


def make_environments(cells: Sequence[Cell], *, may_be_large: bool) -> None:
    """Say which plugins of cells lack an environment of their own; make these where the option `Yes` allows it.

    Otherwise a cell makes them as it is prepared, or is a row that says why not.
    """
    from bench.measure import lease
    from bench.pipeline import isolated

    if names := isolated.unmade_of(cells):
        say(f"{', '.join(names)}: its own environment is not here yet, and takes minutes to make")
    if may_be_large:
        with lease.hold():
            isolated.make_for(cells)


def environments(versions: list[str] | None, pythons: list[Path] | None) -> list[Asked]:
    """What the options `With` and `Pythons` ask for.

    Raises:
        InputError: a value cannot be read.
    """
    from bench.pipeline import environment_request

    return [*map(environment_request.packages, versions or ()), *map(environment_request.environment, pythons or ())]


def graph_file(model: Path, shape: list[str] | None, dim: list[str] | None, trust: bool) -> GraphFile:
    """The ONNX file of the model that a command names, or of its plain export; its notes are said.

    Args:
        model: the model, of any format that `bench run` takes.
        shape, dim, trust: values of the options `Shapes`, `Dims` and `Trust`.

    Raises:
        InputError: a text is not a shape or a size, or there is no ONNX file of the model; the message says why.
    """
    from bench.measure.limits import Limits
    from bench.pipeline import graph_files
    from bench.tasks.adopt import Options

    options = Options(dims=tuple(dim or ()), shapes=tuple(shape or ()), trust=trust)
    file = graph_files.of_model(here(model, trust), options, Limits.of(step_s=None, memory_bytes=None))
    say_notes(file.notes)
    return file


def inputs_of(file: GraphFile, inputs: Path | None, observe: bool) -> dict[str, Any]:
    """The sizes of a file, and the values of the options `Inputs` and `Observe`, as the requests about it take them.

    Raises:
        InputError: there is no such file of inputs.
    """
    from bench.pipeline.files import readable

    arrays = readable(inputs) if inputs else None
    return {"shapes": file.shapes, "dims": file.dims, "observe": observe, "inputs": arrays}


def read(results: Path, *, margin: float | None = None, baseline: str | None = None) -> Stored:
    """The stored results that the option `Results` names; lines that cannot be read are told of once, and left out.

    Args:
        results: value of the option `Results`.
        margin: largest difference that counts as noise, as a share; None for the default.
        baseline: see `bench.records.folder.read`.

    Raises:
        InputError: there are no results, it is not clear of which machine, or the baseline has no result.
    """
    from bench.records import folder
    from bench.records.reading import note_of

    with waiting.reporting(f"reading the results in {results}", say):
        stored = folder.read(results, baseline=baseline, **({} if margin is None else {"margin": margin}))
    gc.freeze()  # what is stored stays until the command ends, and need not be searched for garbage
    say_notes(filter(None, [note_of(stored.damages)]))
    return stored


def read_all(results: Path, *, margin: float | None = None) -> dict[str, Stored]:
    """The stored results of all machines that the option `Results` names, by the names of the machines; see `read`.

    Raises:
        InputError: there are no results.
    """
    from bench.records import folder
    from bench.records.reading import note_of

    with waiting.reporting(f"reading the results in {results}", say):
        every = folder.read_all(results, left_out=say, **({} if margin is None else {"margin": margin}))
    gc.freeze()  # as above
    say_notes(filter(None, [note_of(stored.damages) for stored in every.values()]))
    return every


def write(text: str | bytes, output: Path | None) -> None:
    """Print a text, or write it to the file that the option `Output` names; `-` is the standard output.

    A text has no control characters but those of its layout.
    """
    text = printable(text, keep=LAYOUT) if isinstance(text, str) else text
    if output is None or str(output) in STANDARD_OUTPUT:
        typer.echo(text, nl=False)
    else:
        from bench.records.store import write_atomically

        write_atomically(output, text)


def tell(*lines: str) -> None:
    """Print lines about names and paths; each of them is one line, whatever the names hold."""
    for line in lines:
        typer.echo(printable(line))


def say(*messages: str) -> None:
    """Print messages for a person on the standard error stream, one line each; a terminal's lines break at blanks.

    Messages quote names and texts from files; control characters and line ends in them are printed as escapes.
    """
    for message in messages if sys.stderr else ():  # None where it is closed
        line = f"bench: {printable(message)}"
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns
            line = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")
        print(line, file=sys.stderr)


def say_notes(notes: Iterable[str]) -> None:
    """Say each different note once."""
    say(*dict.fromkeys(notes))


def unnamed_limits(max_metric_drop: str, rows: Iterable[Row]) -> Iterator[str]:
    """A note for each task that loses in a unit for which `--max-metric-drop` names no limit.

    Args:
        max_metric_drop: the option's value.
        rows: rows of the tasks.
    """
    if max_metric_drop == NO_LIMIT:
        return
    named, allowed = units.losses(max_metric_drop), units.allowed_loss(max_metric_drop)
    if not any(named.values()):  # no loss is none in any unit
        return
    for task, unit in dict.fromkeys((row.task, row.metric_loss_unit) for row in rows):
        if unit is not None and unit not in named:
            default = loss_units.text(allowed.of(unit), unit)
            what = "dB" if unit == DB else "a share of its metric"
            yield (
                f"{task} loses {what}, of which --max-metric-drop {max_metric_drop} names no limit: {default}, the "
                f"default, is allowed ({allowed.option(SHARE, DB)} says both)"
            )


def is_typed(ctx: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line, rather than having its default."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def interpreter() -> str:
    """The command that starts the Python that runs this: `python` where that is it, or else its path."""
    usual = shutil.which("python")
    if usual is not None and Path(usual).parent == Path(sys.executable).parent:
        return "python"
    path = Path(sys.executable)
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def again(line: str, arguments: Sequence[str]) -> str:
    """A line that says how to go on, with the command in place of `the same command with --option value`.

    Args:
        line: the line.
        arguments: those of the command that ran, from the name of the command on.
    """
    said = re.fullmatch(r"next: the same command with ((?:--\w+ \w+ ?)+)", line)
    if said is None:
        return line
    more = said[1].split()
    changed = {*more[::2], "--total"}
    others: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument in changed:
            next(rest, None)
        elif argument.partition("=")[0] not in changed:
            others.append(argument)
    return f"next: {shlex.join(['bench', *others, *more])}"
