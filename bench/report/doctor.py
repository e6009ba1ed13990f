"""The text of `bench doctor`: the machine, what protects its figures, its runtimes and its noise."""

from __future__ import annotations

from bench.pipeline.doctor import Examination


def render(found: Examination) -> str:
    """A few paragraphs for a person."""
    return "\n".join([*_machine(found), "", *_protection(found), "", *_runtimes(found), "", *_noise(found)]) + "\n"


def _machine(found: Examination) -> list[str]:
    facts, state = found.facts, found.state
    lines = [
        f"machine     {facts['processor']}, {facts['num_cores']} cores, {facts['memory_gib']} GiB ({facts['system']})",
        f"results in  results/{found.name}",
        f"load        {state['load_1m']} over the last minute, {state['available_bytes'] / 2**30:.1f} GiB free",
    ]
    if state["governor"] not in (None, "performance"):
        lines.append(f"clock       governor {state['governor']!r}: the clock may vary; `performance` keeps it steady")
    if state["temperature_c"] is not None:
        lines.append(f"heat        {state['temperature_c']:.0f} degrees Celsius at the hottest sensor")
    return lines


def _protection(found: Examination) -> list[str]:
    can = found.protection
    memory, first = can["memory_method"], can["high_priority"]
    return [
        f"memory      tracked by {memory}" + ("" if memory == "kernel" else ": a short peak may be missed"),
        "priority    "
        + ("workers run before other processes" if first else "not permitted (CAP_SYS_NICE): a busy machine will show"),
        f"limits      memory of workers {'limited' if can['memory_limited'] else 'cannot be limited here'}",
        f"network     {'shut off for workers' if can['no_network'] else 'cannot be shut off for workers here'}",
    ]


def _runtimes(found: Examination) -> list[str]:
    width = max(12, 1 + max(len(one.name) for one in found.runtimes))
    lines = []
    for one in found.runtimes:
        packages = ", ".join(f"{name} {version}" for name, version in one.versions.items() if name != "python")
        state = "usable" if one.reason is None else f"not usable: {one.reason}"
        lines.append(f"{one.name:{width}}{state}; {packages or 'needs nothing'}")
    return lines


def _noise(found: Examination) -> list[str]:
    noise = found.noise
    advice = "quiet" if found.is_quiet else "noisy: expect more launches, and prefer 1-thread cells"
    return [
        f"noise       the same work, run side by side, differs by {noise.value - 1:+.2%} "
        f"[{noise.low - 1:+.2%}, {noise.high - 1:+.2%}]: {advice}",
        f"drift       bursts of it one after the other differ by up to {found.spread:.2f}x: "
        "what timing one cell after another would suffer",
    ]
