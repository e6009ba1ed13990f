"""The plugins on the search path, and whether each of them works on this machine.

No framework is imported, so that the list appears at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TypeVar

from bench.api import Exporter, Plugin, Runtime, Task, Variant, loading
from bench.api.containment import contained
from bench.api.errors import BenchError
from bench.pipeline import environments
from bench.plugins import catalog, declarations

P = TypeVar("P", bound=Plugin)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Listed:
    """One plugin of the list.

    Attributes:
        name: the plugin's name.
        text: the frameworks or formats that the plugin takes; empty where its file cannot be loaded.
        reason: why the plugin cannot be used here; None where it can.
        environment: the state of the environment of its own that it runs in; empty where it runs here.
    """

    name: str
    text: str
    reason: str | None
    environment: str = ""


def listed() -> dict[str, list[Listed]]:
    """Every plugin, by kind: `tasks`, `exporters`, `variants` and `runtimes`."""
    elsewhere = [Listed(name=name, text="", reason=loading.IN_REPOSITORY) for name in loading.in_repository("models")]
    return {
        "tasks": [*_listed(loading.find("models"), catalog.task, _of_task), *elsewhere],
        "exporters": _listed(loading.find("exporters"), catalog.exporter, _of_exporter),
        "variants": _listed(_names_of_variants(), lambda name: catalog.variant(name).variant, _of_variant),
        "runtimes": _listed(loading.find("runtimes"), catalog.runtime, _of_runtime),
    }


def _listed(names: Iterable[str], load: Callable[[str], P], describe: Callable[[P], str]) -> list[Listed]:
    entries = []
    for name in names:
        try:
            plugin = load(name)
            with contained(plugin.path, "what it states"):
                text = describe(plugin)
            reason, environment = catalog.reason_of(plugin), _environment(plugin)
            entries.append(Listed(name=name, text=text, reason=reason, environment=environment))
        except BenchError as error:
            entries.append(Listed(name=name, text="", reason=str(error)))
        except Exception as error:  # whatever the code of a plugin raises; the others are listed
            entries.append(Listed(name=name, text="", reason=f"{type(error).__name__}: {error}"))
    return entries


def _environment(plugin: Plugin) -> str:
    if not plugin.runs_apart():
        return ""
    size_bytes = environments.size_of_isolated(plugin)
    if size_bytes is not None:
        return f"an environment of its own, {size_bytes / 1e6:,.0f} MB"
    if (failure := environments.last_failure(plugin)) is not None:
        return f"an environment of its own, which could not be made: {failure}"
    return f"an environment of its own, which `bench install {plugin.name} --yes` makes"


def _names_of_variants() -> list[str]:
    """The names of all variants, and then those of the files that cannot be loaded."""
    broken = []
    for name in loading.find("variants"):
        try:
            catalog.variant_file(name)
        except BenchError:
            broken.append(name)
    return [*catalog.variants(), *broken]


def _of_task(task: Task) -> str:
    return f"{' and '.join(task.sources)}; metric {task.metric_name}"


def _of_exporter(exporter: Exporter) -> str:
    return f"from {' and '.join(exporter.sources) or 'any source'}"


def _of_variant(variant: Variant) -> str:
    return f"on {' and '.join(variant.formats)}"


def _of_runtime(runtime: Runtime) -> str:
    options = f"; options {', '.join(runtime.options)}" if runtime.options else ""
    providers: tuple[str, ...] = declarations.ask(runtime, "providers")
    declarations.ask(runtime, "packages", *providers[:1])
    return f"opens {' and '.join(runtime.formats)} on {', '.join(providers)}{options}"
