"""What this machine is, can run, and how noisy it is now: the text of `bench doctor`."""

from __future__ import annotations

from bench.api import loading
from bench.api.cell import Cell
from bench.api.errors import ChildError
from bench.measure import comparison, machine
from bench.measure.block import Method, run_block
from bench.measure.limits import Limits
from bench.measure.process import Child
from bench.measure.session import Worker
from bench.pipeline import opening, provenance, verify
from bench.plugins import catalog
from bench.records.lines import Failure

PROBE = "toy/null/native/raw/null/cpu/b1t1"
NUM_BLOCKS = 3
QUIET_SPREAD = 0.01


def examine() -> str:
    """A few paragraphs for a person; measuring the noise takes some seconds."""
    return "\n".join([*_machine(), "", *_protection(), "", *_runtimes(), "", *_noise()]) + "\n"


def _machine() -> list[str]:
    facts, state = machine.describe(), machine.state()
    lines = [
        f"machine     {facts['processor']}, {facts['num_cores']} cores, {facts['memory_gib']} GiB ({facts['system']})",
        f"results in  results/{machine.name()}",
        f"load        {state.load_1m} over the last minute, {state.available_bytes / 2**30:.1f} GiB free",
    ]
    if state.governor not in (None, "performance"):
        lines.append(f"clock       governor {state.governor!r}: the clock may vary; `performance` keeps it steady")
    if state.temperature_c is not None:
        lines.append(f"heat        {state.temperature_c:.0f} degrees Celsius at the hottest sensor")
    return lines


def _protection() -> list[str]:
    """What a worker can do to protect the machine, and the figures."""
    with Child(memory_bytes=2**32) as child:
        can = child.request(Worker.protection, timeout_s=30)
    memory, first = can["memory_method"], can["high_priority"]
    return [
        f"memory      tracked by {memory}" + ("" if memory == "kernel" else ": a short peak may be missed"),
        "priority    "
        + ("workers run before other processes" if first else "not permitted (CAP_SYS_NICE): a busy machine will show"),
        f"limits      memory of workers {'limited' if can['memory_limited'] else 'cannot be limited here'}",
        f"network     {'shut off for workers' if can['no_network'] else 'cannot be shut off for workers here'}",
    ]


def _runtimes() -> list[str]:
    lines = []
    width = max(12, 1 + max(map(len, loading.find("runtimes"))))
    for name in loading.find("runtimes"):
        runtime = catalog.runtime(name)
        reason = runtime.skip()
        versions = provenance.versions(runtime.requires)
        found = ", ".join(f"{package} {version}" for package, version in versions.items() if package != "python")
        lines.append(
            f"{name:{width}}{'usable' if reason is None else 'not usable: ' + reason}; {found or 'needs nothing'}"
        )
    return lines


def _noise() -> list[str]:
    """A/A: the same cell twice, several launches, run as any two cells are."""
    cell, limits = Cell.from_path(PROBE), Limits()
    probe = verify.from_name(cell, limits)
    if isinstance(probe, Failure):
        raise ChildError("error", f"the probe failed: {probe.reason}")
    subject = opening.subject(probe)
    launches = []
    for _ in range(NUM_BLOCKS):
        result = run_block(subject, [], Method())
        if result.failures:
            raise ChildError("error", f"the probe failed: {result.failures[0].error}")
        launches += [launch for _, launch in result.launches]
    control = comparison.against_baseline(launches, launches).control
    assert control is not None
    medians = [median for launch in launches for median in launch.medians_ns]
    spread = max(medians) / min(medians)
    advice = "quiet" if control.half_width < QUIET_SPREAD else "noisy: expect more launches, and prefer 1-thread cells"
    return [
        f"noise       the same work, run side by side, differs by {control.value - 1:+.2%} "
        f"[{control.low - 1:+.2%}, {control.high - 1:+.2%}]: {advice}",
        f"drift       bursts of it one after the other differ by up to {spread:.2f}x: "
        "what timing one cell after another would suffer",
    ]
