"""Named sweeps: functions that return the cells to measure. Each public function with that signature is a sweep."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import itertools
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from bench.api import Exporter, Plugin, errors, loading, sized
from bench.api.cell import CHAIN, RAW, Cell, matches
from bench.api.errors import InputError, PluginError
from bench.measure import machine
from bench.pipeline import environments, experiments
from bench.plugins import catalog

P = TypeVar("P", bound=Plugin)
CHAINS = ("onnxoptimizer+onnxsim", "dedup+onnxsim+int8_dynamic", "weight_only-int4-sym-block")
"""Chains, and options that are not the first of their file, to measure besides every kind of variant."""
SWEEP_SIGNATURE = inspect.Signature(return_annotation=list[Cell])
QUICK_TASK = "super_resolution"
"""The task in both frameworks that is exported and verified fastest."""
BATCHES = (1, 4, 16)


def quick() -> list[Cell]:
    """One task in the two frameworks and its plain exports, one thread: a first table in a minute or two."""
    return plain(QUICK_TASK)


def plain(task: str) -> list[Cell]:
    """A task's plain exports on their usual runtimes, and with all of ONNX Runtime's own optimizations, one thread."""
    return [cell for cell in cells_of((task,), variants=(RAW, "ort-all")) if _is_usual(cell)]


def full() -> list[Cell]:
    """Every choice once for every task, at one thread.

    Each export on the usual runtime of its format; every other runtime and provider, and each kind of variant (the
    first option of its file), on the first export to a format. Exports on usual runtimes are there at all cores, too,
    where there are several of them to compare.
    """
    every_core = machine.num_cores()
    kinds = dict.fromkeys(named.variant for named in catalog.variants().values())
    variants = [next(name for name, named in catalog.variants().items() if named.variant is kind) for kind in kinds]
    cells = []
    for task in _tasks():
        plain = cells_of((task,), variants=(RAW,))
        ranked = sorted(plain, key=_is_open, reverse=True)
        first = {_format(cell): (cell.source, cell.exporter) for cell in reversed(ranked)}.values()
        cells += [cell for cell in plain if _is_usual(cell) or (cell.source, cell.exporter) in first]
        usual = [dataclasses.replace(cell, threads=every_core) for cell in plain if _is_usual(cell)]
        if every_core > 1 and len(usual) > 1:
            cells += usual
        changed = cells_of((task,), variants=(*variants, *CHAINS))
        cells += [cell for cell in changed if _is_usual(cell) and (cell.source, cell.exporter) in first]
    return cells


def scaling() -> list[Cell]:
    """Plain exports on their usual runtimes at several batches and numbers of threads: throughput beside latency."""
    threads = sorted({1, machine.num_cores()})
    return [cell for cell in cells_of(_tasks(), variants=(RAW,), batches=BATCHES, threads=threads) if _is_usual(cell)]


def threads() -> list[Cell]:
    """Plain exports on their usual runtimes at 1, 2, 4, ... threads up to all cores, each against itself at one."""
    cores = machine.num_cores()
    counts = sorted({cores, *(2**power for power in range(cores.bit_length()))})
    return [cell for cell in cells_of(_tasks(), variants=(RAW,), threads=counts) if _is_usual(cell)]


def seed() -> list[Cell]:
    """Published experiments, measured again; `bench show --sweep seed` prints a table of each."""
    return experiments.cells()


def everything() -> list[Cell]:
    """Every combination of every task, from which globs choose, at one thread and at all cores; it takes hours."""
    threads = sorted({1, machine.num_cores()})
    return cells_of(
        loading.find("models"), variants=list(dict.fromkeys((RAW, *catalog.variants(), *CHAINS))), threads=threads
    )


def _tasks() -> list[str]:
    """Names of the tasks, without the tasks that the package contains for trials.

    Raises:
        InputError: there are no such tasks, as in a package that was installed without the repository.
    """
    found = loading.find("models")
    names = [name for name, path in found.items() if not path.is_relative_to(loading.PACKAGE.resolve())]
    if not names:
        missing = ", ".join(loading.in_repository("models"))
        where = f"the reference models ({missing}) are {loading.IN_REPOSITORY}" if missing else "no models/ folder"
        raise InputError(f"no task to sweep over: {where}; `bench run --model FILE` measures a model of your own")
    return names


def _format(cell: Cell) -> str:
    return catalog.exporter(cell.exporter).format(cell.source)


def _is_open(cell: Cell) -> bool:
    """Whether the cell's exporter accepts the model of the cell's task."""
    return catalog.exporter(cell.exporter).refusal(catalog.task(cell.task)) is None


def _is_usual(cell: Cell) -> bool:
    """Whether the cell's runtime is the usual one for its format, with the runtime's first provider."""
    runtime = catalog.runtime(cell.runtime)
    return _format(cell) in runtime.default_for and cell.provider == runtime.providers()[0]


def cells_of(
    tasks: Iterable[str],
    *,
    variants: Sequence[str],
    batches: Sequence[int] = (1,),
    threads: Sequence[int] = (1,),
    exporters: Mapping[str, Exporter] | None = None,
) -> list[Cell]:
    """All cells of some tasks whose parts fit together.

    Args:
        tasks: names of the tasks.
        variants: chains joined by `+`, or `raw`.
        batches: numbers of samples in an inference.
        threads: numbers of threads.
        exporters: by name; None for all exporters.
    """
    cells = []
    runtimes = _sound("runtimes", catalog.runtime)
    providers = functools.cache(lambda name: runtimes[name].providers())  # asked once: some look at the machine
    exporters = _sound("exporters", catalog.exporter) if exporters is None else exporters
    for task_name in tasks:
        for source, (exporter_name, exporter) in itertools.product(catalog.task(task_name).sources, exporters.items()):
            if exporter.sources and source not in exporter.sources:
                continue
            format_, parts = exporter.format(source), {"task": task_name, "source": source, "exporter": exporter_name}
            fitting = [chain for chain in variants if _fits(chain, format_)]
            opening = [name for name, runtime in runtimes.items() if format_ in runtime.formats]
            cells += [
                Cell(**parts, variant=variant, runtime=opener, provider=provider, batch=batch, threads=num_threads)
                for variant, opener, batch, num_threads in itertools.product(fitting, opening, batches, threads)
                for provider in providers(opener)
            ]
    return cells


def _sound(kind: str, load: Callable[[str], P]) -> dict[str, P]:
    """Plugins of a kind by name, without files that cannot be loaded: `bench list` says what is wrong with those."""
    found = {}
    for name in loading.find(kind):
        with contextlib.suppress(PluginError):
            found[name] = load(name)
    return found


def _fits(chain: str, format_: str) -> bool:
    return chain == RAW or all(format_ in catalog.variant(name).variant.formats for name in chain.split(CHAIN))


def named() -> dict[str, Callable[[], list[Cell]]]:
    """Sweeps by name."""
    functions = {name: item for name, item in globals().items() if inspect.isfunction(item)}
    return {
        name: function
        for name, function in functions.items()
        if inspect.signature(function, eval_str=True) == SWEEP_SIGNATURE and not name.startswith("_")
    }


def select(globs: Sequence[str], sweep: str | None) -> list[Cell]:
    """Cells of a sweep that a glob matches; with globs and no sweep, of everything there is; `full` by default.

    A glob that is a whole cell path names that cell, with whatever chain, batch and threads it says.

    Raises:
        InputError: no such sweep, or a glob that matches nothing.
    """
    if sweep is not None and sweep not in named():
        raise InputError(f"no sweep named {sweep!r}; {errors.suggest(sweep, named())}")
    if not globs:
        return named()[sweep or "full"]()
    pool = functools.cache(named()[sweep] if sweep else everything)  # not built for globs that are paths of cells
    chosen: dict[Cell, None] = {}
    for sized_glob in globs:
        glob, at = _apart(sized_glob)
        is_path = glob.count("/") == 6 and not any(sign in glob for sign in "*?[")
        found = [_checked(Cell.from_path(glob))] if is_path else [cell for cell in pool() if matches(cell, [glob])]
        if not found:
            raise InputError(f"no cell matches {glob!r}; {_nearest(glob, pool())}")
        chosen |= dict.fromkeys(dataclasses.replace(cell, task=cell.task + at) for cell in found)
    for name in {cell.task for cell in chosen}:
        catalog.task(name)  # refuses sizes that the task does not have
    return list(chosen)


def _apart(glob: str) -> tuple[str, str]:
    """A glob over cells of tasks as they are, and what the glob adds to the task's name, such as its sizes."""
    task, slash, rest = glob.partition("/")
    family, (_, mark, at) = sized.family_of(task), task.partition(sized.MARK)
    if mark and sized.SIZES.fullmatch(at) is None:
        raise InputError(f"not sizes of a task: {task!r}; they read {family}@height=224,width=224")
    return family + slash + rest, sized.in_order(task).removeprefix(family)


def _checked(cell: Cell) -> Cell:
    """Check that all parts of a cell exist and fit together.

    Raises:
        InputError: a part does not exist, or does not fit another part.
    """
    task, exporter, runtime = catalog.task(cell.task), catalog.exporter(cell.exporter), catalog.runtime(cell.runtime)
    for name in cell.chain:
        catalog.variant(name)
    if cell.source not in task.sources:
        raise InputError(f"{cell.task} has no source {cell.source!r}; {errors.suggest(cell.source, task.sources)}")
    if exporter.sources and cell.source not in exporter.sources:
        raise InputError(f"{cell.exporter} exports {' and '.join(exporter.sources)}, not {cell.source}")
    if exporter.format(cell.source) not in runtime.formats:
        raise InputError(f"{cell.runtime} opens {', '.join(runtime.formats)}, not {exporter.format(cell.source)}")
    runtime.check_provider(cell.provider)
    environments.check_known(cell)
    return cell


def _nearest(glob: str, pool: Sequence[Cell]) -> str:
    """A suggestion for the first part of a glob that no cell has; a path of a model is no glob."""
    if Path(glob).exists():
        return f"to measure the model in {glob}: `bench run --model {shlex.quote(glob)}`"
    fields = ("task", "source", "exporter", "variant", "runtime", "provider")
    for part in glob.split("/"):
        names = {getattr(cell, field) for cell in pool for field in fields}
        if part and not any(sign in part for sign in "*?[") and part not in names:
            known = part in loading.in_repository("models")
            return f"it is {loading.IN_REPOSITORY}" if known else errors.suggest(part, sorted(names))
    return "see `bench run --dry-run` for what there is"


def baselines(task_name: str, batch: int, threads: int) -> list[Cell]:
    """The task's plain native cells in the order of its sources: the first cell that works is the baseline."""
    native = {"native": catalog.exporter("native")}
    cells = cells_of((task_name,), variants=(RAW,), batches=(batch,), threads=(threads,), exporters=native)
    return [cell for cell in cells if _is_usual(cell)]
