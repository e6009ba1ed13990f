"""The plugins by name, as instances: tasks, exporters, variants and runtimes."""

import contextlib
import dataclasses
import functools
import inspect
from typing import TypeVar

from bench.api import Exporter, Plugin, Runtime, Task, Variant, mixture
from bench.api.cell import Cell
from bench.api.containment import reported
from bench.api.errors import InputError, PluginError, suggest
from bench.api.loading import _load_module, find, load_module, path_of
from bench.api.names import PluginName, Role, TaskName
from bench.plugins import declarations, generating, other_sizes, tuning

P = TypeVar("P", bound=Plugin)
_RENAMED = {"relative_loss": "metric_loss"}
"""Methods of a task that had another name: a task that still defines one would be judged without it."""


@functools.cache
def _load(kind: str, name: str, base: type[P]) -> P:
    path = path_of(kind, name, what=base.__name__.lower())
    module = load_module(path)
    named = [item for item in vars(module).values() if inspect.isclass(item) and issubclass(item, base)]
    classes = [item for item in named if item.__module__ == module.__name__]  # the others are imported
    if len(classes) != 1:
        raise PluginError(f"{path} must define one subclass of bench.api.{base.__name__}; it defines {len(classes)}")
    declarations.check(path, classes[0], base)
    for old, new in _RENAMED.items():
        if issubclass(classes[0], Task) and hasattr(classes[0], old):
            raise PluginError(f"{path}: {classes[0].__name__} defines {old}, which nothing calls: it is {new} now")
    with reported(path, classes[0].__name__):
        return classes[0](name=name, path=path)


@functools.cache
def task(name: TaskName | str) -> Task:
    """The task in the folder `models/<model>`, or a task made of it where the name says so: see `bench.api.names`."""
    if isinstance(name, str):
        return task(TaskName.parse(name))
    model_task, sizes = _load("models", name.model, Task), dict(name.sizes)
    match name.role:
        case Role.GENERATION:
            room = model_task.decoder.max_positions if model_task.decoder is not None else 0
            return generating.generating(model_task, generating.fitted(sizes, room))
        case Role.DECODING_STEP:
            return generating.step(model_task)
        case Role.TUNING:
            model_task = tuning.tuning(model_task)
        case Role.CONFIRMATION:
            model_task = tuning.confirming(model_task)
    return other_sizes.resized(model_task, sizes) if sizes else model_task


def exporter(name: PluginName | str) -> Exporter:
    """The exporter in the file `exporters/<plugin>.py`, whatever the label of the name."""
    return _load("exporters", _plugin(name), Exporter)


def runtime(name: PluginName | str) -> Runtime:
    """The runtime in the file `runtimes/<plugin>.py`, whatever the label of the name."""
    return _load("runtimes", _plugin(name), Runtime)


def _plugin(name: PluginName | str) -> str:
    return (PluginName.parse(name) if isinstance(name, str) else name).listed


def format_of(cell: Cell) -> str:
    """The format of the file that a cell's exporter writes."""
    return exporter(cell.exporter).format(cell.source)


def variant_file(name: str) -> Variant:
    """The variant in the file `variants/<name>.py`, without an option."""
    return _load("variants", name, Variant)


@dataclasses.dataclass(frozen=True)
class NamedVariant:
    """A variant with one of its options."""

    variant: Variant
    option: str


def mixing() -> list[Variant]:
    """The variants that treat each part of a model in its own way: see `Variant.letters`."""
    candidates = []
    for name in find("variants"):
        with contextlib.suppress(PluginError):
            candidates.append(variant_file(name))
    return [variant for variant in candidates if variant.letters]


@functools.cache
def variants() -> dict[str, NamedVariant]:
    """Every listed variant by name: the file's, or `<file>-<option>`."""
    named_variants = {}
    for name in find("variants"):
        with contextlib.suppress(PluginError):  # it cannot be used; `bench list` says why, and the others go on
            for option in variant_file(name).options:
                named_variants[_listed(name, option)] = NamedVariant(variant_file(name), option)
    return named_variants


def _listed(file: str, option: str) -> str:
    """The name of the variant in a file with one of its options."""
    return f"{file}-{option}" if option else file


@functools.cache
def variant(name: PluginName | str) -> NamedVariant:
    """The variant of a name, whatever its label.

    Raises:
        InputError: there is no variant of that name; the message suggests the nearest name.
    """
    name = PluginName.parse(name) if isinstance(name, str) else name
    # A worker that applies one variant does not load the files of all others.
    files = [file for file in find("variants") if name.listed == file or name.listed.startswith(f"{file}-")]
    for file in reversed(files):
        with contextlib.suppress(PluginError):  # `bench list` says why it cannot be used, and the others go on
            for option in variant_file(file).options:
                if name.listed == _listed(file, option):
                    return NamedVariant(variant_file(file), option)
    if name.listed in files:
        variant_file(name.listed)  # raises what is wrong with the file
    if name.option and name.plugin in files:
        plugin = variant_file(name.plugin)
        if mixture.is_spelled(name.option, plugin.letters):  # it is not listed, but has the form that its file asks for
            return NamedVariant(plugin, name.option)
    raise InputError(f"no variant named {name.listed!r}; {suggest(name.listed, variants())}")


def plugin(kind: str, name: PluginName) -> Plugin:
    """The plugin of a name in a cell; of a variant, the file, which a search asks ahead of an option.

    Args:
        kind: `exporters`, `variants` or `runtimes`.
        name: the name.

    Raises:
        InputError: there is no plugin of that name.
    """
    match kind:
        case "exporters":
            return exporter(name)
        case "variants":
            return variant_file(name.listed) if name.listed in find("variants") else variant(name).variant
    return runtime(name)


def forget() -> None:
    """Forget all plugins, so that the next call looks for them anew: call it after the search path has changed."""
    for cached in (find, _load_module, _load, task, variants, variant):
        cached.cache_clear()


def skip_reason(cell: Cell) -> str | None:
    """The reason why a cell cannot run on this machine; None if it can.

    A plugin that runs in another environment is not asked: its packages need not be installed here.
    """
    plugins: list[tuple[PluginName, Plugin]] = [(cell.exporter, exporter(cell.exporter))]
    plugins += [(name, variant(name).variant) for name in cell.chain]
    plugins += [(cell.runtime, runtime(cell.runtime))]
    for plugin in (*(plugin for name, plugin in plugins if not name.label), task(cell.task)):
        reason = reason_of(plugin)
        if reason is not None:
            return f"{plugin.name}: {reason}"
    generates = cell.task.role is Role.GENERATION
    if generates and not runtime(cell.runtime).generates:
        return f"{cell.runtime}: it does not generate text"
    if not generates and not runtime(cell.runtime).scores:
        return f"{cell.runtime}: it only generates text; name the task {TaskName(cell.task.model, Role.GENERATION)}"
    for plugin in (exporter(cell.exporter), runtime(cell.runtime)):
        if refusal := declarations.ask(plugin, "refusal", task(cell.task)):
            return f"{plugin.name}: {refusal}"
    if cell.threads > 1 and declarations.ask(runtime(cell.runtime), "one_thread_only"):
        return f"{cell.runtime}: it runs on one thread only"
    return None


def reason_of(plugin: Plugin) -> str | None:
    """The reason why a plugin cannot work on this machine; None if it can.

    Raises:
        PluginError: it cannot tell, or would give its packages no proper environment.
    """
    reason: str | None = declarations.ask(plugin, "skip")
    if isinstance(plugin, Runtime):
        declarations.ask(plugin, "environment", 1)
    return reason
