"""Which plugins there are on the search path, and which of them work on this machine.

No framework is imported: nobody should wait for a list.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from bench.api import Plugin, loading
from bench.api.errors import BenchError
from bench.plugins import catalog


@dataclasses.dataclass(frozen=True, kw_only=True)
class Listed:
    """One plugin.

    Attributes:
        text: what it is made for; empty where its file cannot be loaded.
        reason: why it cannot be used here; None where it can.
    """

    name: str
    text: str
    reason: str | None


def listed() -> dict[str, list[Listed]]:
    """Every plugin, by kind: `tasks`, `exporters`, `variants` and `runtimes`."""
    kinds: dict[str, tuple[Iterable[str], Callable[[str], tuple[Plugin, str]]]] = {
        "tasks": ([*loading.find("models"), *loading.in_repository("models")], _task),
        "exporters": (loading.find("exporters"), _exporter),
        "variants": (_names_of_variants(), _variant),
        "runtimes": (loading.find("runtimes"), _runtime),
    }
    return {kind: [_listed(name, describe) for name in names] for kind, (names, describe) in kinds.items()}


def _listed(name: str, describe: Callable[[str], tuple[Plugin, str]]) -> Listed:
    if describe is _task and name in loading.in_repository("models"):
        return Listed(name=name, text="", reason=loading.IN_REPOSITORY)
    try:
        plugin, text = describe(name)
    except BenchError as error:
        return Listed(name=name, text="", reason=str(error))
    return Listed(name=name, text=text, reason=plugin.skip())


def _names_of_variants() -> list[str]:
    """Every variant; a file that cannot be loaded is listed by its own name, with the reason beside it."""
    try:
        return list(catalog.variants())
    except BenchError:
        return list(loading.find("variants"))


def _task(name: str) -> tuple[Plugin, str]:
    task = catalog.task(name)
    return task, f"{' and '.join(task.sources)}; metric {task.metric_name}"


def _exporter(name: str) -> tuple[Plugin, str]:
    exporter = catalog.exporter(name)
    return exporter, f"from {' and '.join(exporter.sources) or 'any source'}"


def _variant(name: str) -> tuple[Plugin, str]:
    variant = catalog.variant(name).variant
    return variant, f"on {' and '.join(variant.formats)}"


def _runtime(name: str) -> tuple[Plugin, str]:
    runtime = catalog.runtime(name)
    return runtime, f"opens {' and '.join(runtime.formats)} on {', '.join(runtime.providers())}"
