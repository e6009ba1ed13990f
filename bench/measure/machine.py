"""The machine's identity (processor, memory, system) and its present state (load, clock, temperature)."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

CPUINFO = Path("/proc/cpuinfo")
NVIDIA = Path("/proc/driver/nvidia")
LOADED = 3.0
"""Load over the last minute, by core, above which others are at work: a sweep alone makes no more than 1 or 2."""


@functools.cache
def describe() -> dict[str, Any]:
    """The properties by which machines differ for a benchmark: processor, instruction sets, cores, memory, system."""
    info = _cpuinfo()
    return {
        "processor": info.get("model name") or platform.processor() or platform.machine(),
        "family": [info.get(key, "") for key in ("cpu family", "model", "stepping")],
        "flags_sha256": hashlib.sha256(info.get("flags", info.get("Features", "")).encode()).hexdigest()[:16],
        "architecture": platform.machine(),
        "system": platform.system(),
        "num_cores": num_cores(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        **_arm(info),
        **_gpus(),
    }


def _arm(info: Mapping[str, str]) -> dict[str, Any]:
    """Implementer and part of an Arm processor, whose `family` is empty; other processors have neither."""
    numbers = [info.get(key, "") for key in ("CPU implementer", "CPU part")]
    return {"arm": numbers} if all(numbers) else {}


def _gpus() -> dict[str, Any]:
    """NVIDIA's graphics processors with their driver, where there are any."""
    cards = sorted(NVIDIA.glob("gpus/*/information"))
    if not cards:
        return {}
    models = [line.partition(":")[2].strip() for card in cards for line in card.read_text().splitlines()[:1]]
    version = NVIDIA / "version"
    return {"gpus": models, "gpu_driver": version.read_text().splitlines()[0] if version.exists() else ""}


@functools.cache
def name() -> str:
    """A short name that is also a folder's name, such as `amd-epyc-2c-23g-1f0c9a2b`."""
    return name_of(describe())


def name_of(facts: Mapping[str, Any]) -> str:
    """The name of a machine with these properties, some of which may be missing: see `describe`."""
    processor = str(facts.get("processor", "")).lower()
    slug = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\(.*?\)", "", processor)).strip("-")[:40].strip("-")
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]
    return f"{slug}-{facts.get('num_cores')}c-{facts.get('memory_gib')}g-{digest}"


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """Properties of the machine that may change from minute to minute; None where the system does not tell.

    Attributes:
        load_1m: processes that ran or waited to run, on average over the last minute.
        available_bytes: memory that processes can still take.
        clock_mhz: present frequency of the processor.
        governor: name of the policy that sets the frequency.
        temperature_c: of the hottest sensor, in degrees Celsius.
    """

    load_1m: float | None = None
    available_bytes: int
    clock_mhz: int | None = None
    governor: str | None = None
    temperature_c: float | None = None


def state() -> State:
    """The present state of the machine."""
    try:
        frequency = psutil.cpu_freq()
    except (OSError, NotImplementedError):  # some virtual machines do not tell
        frequency = None
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return State(
        load_1m=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        available_bytes=psutil.virtual_memory().available,
        clock_mhz=round(frequency.current) if frequency else None,
        governor=governor.read_text().strip() if governor.exists() else None,
        temperature_c=_temperature_c(),
    )


def busy() -> str | None:
    """What to do about a machine that other programs keep busy now; None where it is quiet, or does not tell."""
    load, cores = state().load_1m, num_cores()
    if load is None or load <= LOADED * cores:
        return None
    return (
        f"this machine is busy: a load of {load:.3g} on {cores} core{'s' if cores > 1 else ''}; figures will be less "
        "sure and take longer: end what else runs, or measure at a quieter hour"
    )


def _temperature_c() -> float | None:
    groups = psutil.sensors_temperatures().values() if hasattr(psutil, "sensors_temperatures") else ()
    return max((reading.current for group in groups for reading in group), default=None)


def _cpuinfo() -> dict[str, str]:
    first = CPUINFO.read_text().split("\n\n")[0] if CPUINFO.exists() else ""
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
