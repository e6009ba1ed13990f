"""The plugins by name, as instances: tasks, exporters, variants and runtimes."""

import contextlib
import dataclasses
import functools
import inspect
from typing import TypeVar

from bench.api import Exporter, Plugin, Runtime, Task, Variant, mixture, sized, versioned
from bench.api.cell import Cell
from bench.api.contained import reported
from bench.api.errors import InputError, PluginError, suggest
from bench.api.loading import _load_module, find, load_module, path_of
from bench.plugins import declared, generating, resized, tuning

P = TypeVar("P", bound=Plugin)
RENAMED = {"relative_loss": "metric_loss"}
"""Methods of a task that had another name: a task that still defines one would be judged without it."""


@functools.cache
def _load(kind: str, name: str, base: type[P]) -> P:
    path = path_of(kind, name, what=base.__name__.lower())
    module = load_module(path)
    named = [item for item in vars(module).values() if inspect.isclass(item) and issubclass(item, base)]
    classes = [item for item in named if item.__module__ == module.__name__]  # the others are imported
    if len(classes) != 1:
        raise PluginError(f"{path} must define one subclass of bench.api.{base.__name__}; it defines {len(classes)}")
    declared.check(path, classes[0], base)
    for old, new in RENAMED.items():
        if issubclass(classes[0], Task) and hasattr(classes[0], old):
            raise PluginError(f"{path}: {classes[0].__name__} defines {old}, which nothing calls: it is {new} now")
    with reported(path, classes[0].__name__):
        return classes[0](name=name, path=path)


@functools.cache
def task(name: str) -> Task:
    """The task in the folder `models/<name>`, or a task made of it where the name says so: see `bench.api.sized`."""
    found, sizes = _load("models", sized.family_of(name), Task), sized.sizes_of(name)
    if sized.is_generating(name):
        room = found.decoder.max_positions if found.decoder is not None else 0
        return generating.generating(found, sized.fitted(sizes, room))
    if sized.is_step(name):
        return generating.step(found)
    if sized.is_tuning(name):
        found = tuning.tuning(found)
    elif sized.is_confirming(name):
        found = tuning.confirming(found)
    return resized.resized(found, sizes) if sizes else found


def exporter(name: str) -> Exporter:
    """The exporter in the file `exporters/<name>.py`, whatever the label of the name: see `bench.api.versioned`."""
    return _load("exporters", versioned.plugin_of(name), Exporter)


def runtime(name: str) -> Runtime:
    """The runtime in the file `runtimes/<name>.py`, whatever the label of the name: see `bench.api.versioned`."""
    return _load("runtimes", versioned.plugin_of(name), Runtime)


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
    found = []
    for name in find("variants"):
        with contextlib.suppress(PluginError):
            found.append(variant_file(name))
    return [variant for variant in found if variant.letters]


@functools.cache
def variants() -> dict[str, NamedVariant]:
    """Every listed variant by name: the file's, or `<file>-<option>`."""
    found = {}
    for name in find("variants"):
        with contextlib.suppress(PluginError):  # it cannot be used; `bench list` says why, and the others go on
            for option in variant_file(name).options:
                found[f"{name}-{option}" if option else name] = NamedVariant(variant_file(name), option)
    return found


def variant(name: str) -> NamedVariant:
    """The variant of a name, whatever its label: see `bench.api.versioned`.

    Raises:
        InputError: there is no variant of that name; the message suggests the nearest name.
    """
    name = versioned.plugin_of(name)
    if name in variants():
        return variants()[name]
    if name in find("variants"):
        variant_file(name)  # raises what is wrong with the file
    if (found := _spelled(name)) is not None:
        return found
    raise InputError(f"no variant named {name!r}; {suggest(name, variants())}")


def _spelled(name: str) -> NamedVariant | None:
    """The variant of a name whose option is not listed, but has the form that its file asks for; else None."""
    file, mark, option = name.partition("-")
    if not mark or file not in find("variants"):
        return None
    found = variant_file(file)
    return NamedVariant(found, option) if mixture.is_spelled(option, found.letters) else None


def forget() -> None:
    """Forget all plugins, so that the next call looks for them anew: call it after the search path has changed."""
    for cached in (find, _load_module, _load, task, variants):
        cached.cache_clear()


def skip_reason(cell: Cell) -> str | None:
    """The reason why a cell cannot run on this machine; None if it can.

    A plugin that runs in another environment is not asked: its packages need not be installed here.
    """
    steps: dict[str, Plugin] = {cell.exporter: exporter(cell.exporter)}
    steps |= {name: variant(name).variant for name in cell.chain} | {cell.runtime: runtime(cell.runtime)}
    for plugin in (*(step for name, step in steps.items() if not versioned.label_of(name)), task(cell.task)):
        reason = reason_of(plugin)
        if reason is not None:
            return f"{plugin.name}: {reason}"
    if sized.is_generating(cell.task) and not runtime(cell.runtime).generates:
        return f"{cell.runtime}: it does not generate text"
    if not sized.is_generating(cell.task) and not runtime(cell.runtime).scores:
        return f"{cell.runtime}: it only generates text; name the task {cell.task}{sized.GENERATE}"
    for plugin in (exporter(cell.exporter), runtime(cell.runtime)):
        if refusal := declared.ask(plugin, "refusal", task(cell.task)):
            return f"{plugin.name}: {refusal}"
    if cell.threads > 1 and declared.ask(runtime(cell.runtime), "one_thread_only"):
        return f"{cell.runtime}: it runs on one thread only"
    return None


def reason_of(plugin: Plugin) -> str | None:
    """The reason why a plugin cannot work on this machine; None if it can.

    Raises:
        PluginError: it cannot tell, or would give its packages no proper environment.
    """
    reason: str | None = declared.ask(plugin, "skip")
    if isinstance(plugin, Runtime):
        declared.ask(plugin, "environment", 1)
    return reason
