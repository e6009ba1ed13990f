"""An examination of this machine: its properties, the runtimes that work on it, and its present noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from bench.api import loading
from bench.api.cell import Cell
from bench.api.errors import ChildError, PluginError
from bench.measure import comparison, machine
from bench.measure.block import Method, run_block
from bench.measure.comparison import Group, Series
from bench.measure.limits import Limits
from bench.measure.process import Child
from bench.measure.session import Worker
from bench.measure.stats import Estimate
from bench.pipeline import opening, provenance, verify
from bench.plugins import catalog
from bench.records.lines import Failure

_PROBE = "toy/null/native/raw/null/cpu/b1t1"
_NUM_BLOCKS = 3
_QUIET_SPREAD = 0.01
"""Half-width of the A/A interval below which a machine is quiet."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuntimeState:
    """Whether a runtime works on this machine.

    Attributes:
        name: the runtime's name.
        reason: why the runtime cannot be used; None where it can.
        versions: versions of the packages that the runtime needs, by distribution.
    """

    name: str
    reason: str | None
    versions: Mapping[str, str | None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examination:
    """The result of an examination.

    Attributes:
        name: name of the machine's folder of results.
        facts: as `machine.describe` gives them.
        state: as `machine.state` gives it.
        protection: what a worker can do to protect the machine and the figures, as `Worker.protection` gives it.
        runtimes: every runtime on the search path.
        noise: the A/A ratio: latency of a cell over the latency of the same cell in the same blocks.
        spread: median latency of the slowest burst over the median latency of the fastest burst.
    """

    name: str
    facts: Mapping[str, Any]
    state: machine.State
    protection: Mapping[str, Any]
    runtimes: tuple[RuntimeState, ...]
    noise: Estimate
    spread: float

    @property
    def is_quiet(self) -> bool:
        """Whether the noise is low enough for the usual number of launches."""
        return self.noise.half_width < _QUIET_SPREAD


def examine() -> Examination:
    """Examine this machine, which takes some seconds for the noise.

    Raises:
        ChildError: the probe could not be measured.
    """
    facts, state = machine.describe(), machine.state()
    with Child(memory_bytes=2**32) as child:
        protection = child.request(Worker.protection, timeout_s=30)
    runtimes = tuple(map(runtime_state, loading.find("runtimes")))
    noise, spread = _noise()
    return Examination(
        name=machine.name(),
        facts=facts,
        state=state,
        protection=protection,
        runtimes=runtimes,
        noise=noise,
        spread=spread,
    )


def runtime_state(name: str) -> RuntimeState:
    """The state of the runtime with this name; a file that cannot be loaded is a reason like any other."""
    try:
        runtime = catalog.runtime(name)
        reason = catalog.reason_of(runtime)
    except PluginError as error:
        return RuntimeState(name=name, reason=str(error), versions={})
    versions = {} if runtime.runs_apart() else provenance.versions(runtime.requires)
    return RuntimeState(name=name, reason=reason, versions=versions)


def _noise() -> tuple[Estimate, float]:
    """The A/A ratio of the probe over several blocks, and the spread of its bursts."""
    probe = verify.from_name(Cell.from_path(_PROBE), Limits())
    if isinstance(probe, Failure):
        raise ChildError("error", f"the probe failed: {probe.reason}")
    subject = opening.subject(probe)
    launches = []
    for _ in range(_NUM_BLOCKS):
        result = run_block(subject, [], Method())
        if result.failures:
            raise ChildError("error", f"the probe failed: {result.failures[0].error}")
        launches += [launch for _, launch in result.launches]
    series = Series(name=probe.cell.path, program=probe.cell.runtime.listed, launches=launches)
    (fitted,) = comparison.fit([Group(baseline=series, cells=[])])
    assert fitted.control is not None
    medians = [median for launch in launches for median in launch.medians_ns]
    return fitted.control.ratio(), max(medians) / min(medians)
