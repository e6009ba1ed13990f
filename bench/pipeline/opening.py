"""How the worker of a cell is started, and which requests open the cell: the same for verifying and for measuring."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.api import Plugin, Runtime
from bench.api.cell import Cell
from bench.api.names import PluginName
from bench.api.plugin import NPM
from bench.measure.interpreter import OWN
from bench.measure.process import Child, thread_environment
from bench.measure.subject import Request, Subject
from bench.pipeline import environments, operations, provenance
from bench.pipeline.flow import Verified
from bench.plugins import catalog, declarations
from bench.records.measured_cell import program_of

KERAS_SETTINGS = "bench.tasks.keras_settings"
OPENVINO_SETTINGS = "bench.plugins.engines.openvino.quiet"
_ONNXSIM_SETTINGS = "bench.plugins.engines.onnxsim_alone"
_SETTINGS = {
    KERAS_SETTINGS: {"keras", "tensorflow"},
    OPENVINO_SETTINGS: {"openvino"},
    _ONNXSIM_SETTINGS: {"onnxsim"},
}
"""Modules that set packages up, and the packages: plugins import them first, and so does what imports these ahead."""
_COMMON = frozenset({"numpy", "onnx", "onnxruntime"})
"""Packages that most workers import that make something; the same for all, so that few templates are needed."""
MAKING = ("bench.plugins.steps", "bench.onnxfile.weights.parameter_counts")
_JUDGING = ("onnx", "bench.pipeline.judging", "bench.pipeline.rounding", "bench.onnxfile.costs.profile")
"""Modules that each such worker, and each that verifies, would import by itself."""


def environment(cell: Cell) -> Mapping[str, str]:
    """The environment variables that set up the cell's runtime and the numeric libraries."""
    own: dict[str, str] = declarations.ask(catalog.runtime(cell.runtime), "environment", cell.threads)
    return thread_environment(cell.threads) | own


def worker(cell: Cell, *, memory_bytes: int | None = None) -> Child:
    """Start a child process for a cell, in the environment of its runtime, for whatever is not timed.

    Raises:
        ArtifactError: the environment cannot be made.
    """
    place = process(catalog.runtime(cell.runtime), kind="runtimes", name=cell.runtime)
    if cell.threads > 1:  # packages start threads when they are imported
        place["modules"] = None
    return Child(environment=environment(cell), memory_bytes=memory_bytes, **place)


def process(*plugins: Plugin, kind: str = "", name: PluginName | None = None) -> dict[str, Any]:
    """The arguments `interpreter` and `modules` of a child process that runs plugins and is not timed.

    Args:
        plugins: the plugins that it runs.
        kind: the kind of the plugin whose environment it is.
        name: that plugin's name; None for the environment of this process.

    Raises:
        ArtifactError: the environment cannot be made.
    """
    interpreter = OWN if name is None else environments.interpreter_of(kind, name)
    if interpreter != OWN:
        return {"interpreter": interpreter, "modules": None}
    packages = {
        module
        for plugin in plugins
        for module in ((isinstance(plugin, Runtime) and plugin.imports) or plugin.requires)
        if not module.startswith(NPM)
    }
    verifies = any(isinstance(plugin, Runtime) for plugin in plugins)
    if not verifies:
        packages |= _COMMON
    settings = [module for module, names in _SETTINGS.items() if packages & names]
    own = _JUDGING if verifies else MAKING
    return {"interpreter": OWN, "modules": (operations.__name__, *settings, *sorted(packages), *own)}


def arguments(cell: Cell, artifact: Path) -> dict[str, Any]:
    """The arguments of a request that say which artifact to open, and how."""
    return {"cell": cell.path, "artifact": str(artifact)}


def subject(value: Verified) -> Subject:
    """A verified cell in the form that a block measures, which needs no knowledge of plugins."""
    known = arguments(value.cell, value.artifact.path)
    return Subject(
        cell=value.cell,
        key=value.key,
        environment=environment(value.cell),
        imports=Request(operation=operations.import_packages, arguments=known),
        opening=Request(operation=operations.open_session, arguments={**known, "inputs": str(value.inputs)}),
        rss_bytes=value.quality.rss_bytes,
        interpreter=environments.interpreter_of("runtimes", value.cell.runtime),
        program=program_of(value.cell.runtime, provenance.versions_run(value.cell)),
    )
