"""The name of a processor's microarchitecture, from the numbers by which the processor names itself.

A processor's model name may not tell: on a cloud's virtual machine, `AMD EPYC` may be Zen 3, 4 or 5. The names are
looked up where results are shown, so stored results need not hold them. The numbers are those that the system tells; a
hypervisor may tell others than the processor's.

Sources, of Linux: `bsp_init_amd` in arch/x86/kernel/cpu/amd.c (AMD); arch/x86/include/asm/intel-family.h, and for the
steppings of model 85 `isolation_ucodes` in arch/x86/events/intel/core.c (Intel); arch/arm64/include/asm/cputype.h
(Arm, implementer and part of MIDR_EL1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_INTEL_FAMILY = 6
_SKYLAKE_SERVER = 0x55
_AMD = {
    (0x17, 1): ((0x00, 0x2F), (0x50, 0x5F)),
    (0x17, 2): ((0x30, 0x4F), (0x60, 0x7F), (0x90, 0x91), (0xA0, 0xAF)),
    (0x19, 3): ((0x00, 0x0F), (0x20, 0x5F)),
    (0x19, 4): ((0x10, 0x1F), (0x60, 0xAF)),
    (0x1A, 5): ((0x00, 0x2F), (0x40, 0x4F), (0x60, 0x7F)),
}
"""By family and generation of Zen, the first and the last of its models."""
_INTEL = {
    **dict.fromkeys((0x3C, 0x3F, 0x45, 0x46), "Haswell"),
    **dict.fromkeys((0x3D, 0x47, 0x4F, 0x56), "Broadwell"),
    **dict.fromkeys((0x4E, 0x5E), "Skylake"),
    **dict.fromkeys((0x8E, 0x9E), "Kaby Lake"),
    **dict.fromkeys((0xA5, 0xA6), "Comet Lake"),
    **dict.fromkeys((0x6A, 0x6C, 0x7D, 0x7E), "Ice Lake"),
    **dict.fromkeys((0x8C, 0x8D), "Tiger Lake"),
    **dict.fromkeys((0x97, 0x9A), "Alder Lake"),
    **dict.fromkeys((0xB7, 0xBA, 0xBF), "Raptor Lake"),
    **dict.fromkeys((0xAA, 0xAC), "Meteor Lake"),
    **dict.fromkeys((0xB5, 0xC5, 0xC6), "Arrow Lake"),
    0xBD: "Lunar Lake",
    0x8F: "Sapphire Rapids",
    0xCF: "Emerald Rapids",
    **dict.fromkeys((0xAD, 0xAE), "Granite Rapids"),
    0xAF: "Sierra Forest",
}
"""By model of family 6. Rocket Lake (0xA7) is left out: a hypervisor tells it of Xeons with AMX, which it lacks."""
_STEPPINGS = ((4, "Skylake"), (7, "Cascade Lake"), (11, "Cooper Lake"))
"""The last stepping of each microarchitecture of model 0x55."""
_ARM = {
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse N1",
    (0x41, 0xD40): "Neoverse V1",
    (0x41, 0xD49): "Neoverse N2",
    (0x41, 0xD4F): "Neoverse V2",
    (0x41, 0xD84): "Neoverse V3",
    (0x41, 0xD8E): "Neoverse N3",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1A",
}
"""By implementer and part."""


def microarchitecture(facts: Mapping[str, Any]) -> str | None:
    """The name of the microarchitecture, such as `Zen 5`; None where it is not known.

    Args:
        facts: a machine's properties, see `bench.measure.machine.describe`, some of which may be missing.
    """
    if arm := _numbers(facts.get("arm"), 2):
        return _ARM.get((arm[0], arm[1]))
    family, model, stepping = _numbers(facts.get("family"), 3) or (0, 0, 0)
    if family == _INTEL_FAMILY and model == _SKYLAKE_SERVER:
        return next((name for last, name in _STEPPINGS if stepping <= last), None)
    if family == _INTEL_FAMILY:
        return _INTEL.get(model)
    for (of_zen, generation), ranges in _AMD.items():
        if family == of_zen and any(first <= model <= last for first, last in ranges):
            return f"Zen {generation}"
    return None


def description(facts: Mapping[str, Any]) -> str:
    """A machine's processor, cores and graphics cards: `AMD EPYC, Zen 5 (family 26, model 2), 2 cores`.

    Args:
        facts: as for `microarchitecture`.
    """
    name = str(facts.get("processor") or "an unknown processor").replace("(R)", "").replace("(TM)", "")
    known = microarchitecture(facts)
    parts = [" ".join(filter(None, (f"{name}, {known}" if known else name, _numbered(facts))))]
    if "num_cores" in facts:
        parts.append(f"{facts['num_cores']} core{'' if facts['num_cores'] == 1 else 's'}")
    gpus = facts.get("gpus")
    return ", ".join([*parts, *map(str, gpus if isinstance(gpus, list) else ())])


def _numbered(facts: Mapping[str, Any]) -> str:
    """The numbers that stand for the microarchitecture, in brackets; empty where the system tells none."""
    if arm := _numbers(facts.get("arm"), 2):
        return f"(implementer 0x{arm[0]:02x}, part 0x{arm[1]:03x})"
    if x86 := _numbers(facts.get("family"), 3):
        return f"(family {x86[0]}, model {x86[1]})"
    return ""


def _numbers(texts: object, count: int) -> list[int] | None:
    """So many texts as numbers, in decimal or after `0x`; None where they are none, as in damaged results."""
    if not isinstance(texts, (list, tuple)) or len(texts) != count:
        return None
    try:
        return [int(str(text), 0) for text in texts]
    except ValueError:
        return None
