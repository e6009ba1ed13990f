"""What there is on the search path, and whether it works here: the text of `bench list`.

It imports no framework and draws with plain strings: nobody should wait for a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bench.api import Plugin, loading
from bench.api.errors import BenchError
from bench.plugins import catalog

Described = tuple[Plugin, str]


def listing() -> str:
    """Every plugin with what it is made for, or the reason why it cannot be used."""
    kinds: dict[str, tuple[Iterable[str], Callable[[str], Described]]] = {
        "tasks": ([*loading.find("models"), *loading.in_repository("models")], _task),
        "exporters": (loading.find("exporters"), _exporter),
        "variants": (_names_of_variants(), _variant),
        "runtimes": (loading.find("runtimes"), _runtime),
    }
    return "\n".join(_block(kind, names, describe) for kind, (names, describe) in kinds.items())


def _block(kind: str, names: Iterable[str], describe: Callable[[str], Described]) -> str:
    names = list(names)
    width = max(map(len, names), default=0)
    lines = [f"  {name:{width}}  {_state(name, describe)}" for name in names]
    return "\n".join([kind, *(lines or ["  none"])]) + "\n"


def _state(name: str, describe: Callable[[str], Described]) -> str:
    if describe is _task and name in loading.in_repository("models"):
        return loading.IN_REPOSITORY
    try:
        plugin, text = describe(name)
    except BenchError as error:
        return f"unusable: {error}"
    reason = plugin.skip()
    return f"usable    {text}" if reason is None else f"unusable: {reason}"


def _names_of_variants() -> list[str]:
    """Every variant; a file that cannot be loaded is listed by its own name, with the reason beside it."""
    try:
        return list(catalog.variants())
    except BenchError:
        return list(loading.find("variants"))


def _task(name: str) -> Described:
    task = catalog.task(name)
    return task, f"{' and '.join(task.sources)}; metric {task.metric_name}"


def _exporter(name: str) -> Described:
    exporter = catalog.exporter(name)
    return exporter, f"from {' and '.join(exporter.sources) or 'any source'}"


def _variant(name: str) -> Described:
    variant = catalog.variant(name).variant
    return variant, f"on {' and '.join(variant.formats)}"


def _runtime(name: str) -> Described:
    runtime = catalog.runtime(name)
    return runtime, f"opens {' and '.join(runtime.formats)} on {', '.join(runtime.providers())}"
