"""What this machine's processor can do, told without importing a package."""

from __future__ import annotations

from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
BFLOAT16 = {"amx_bf16", "avx512_bf16", "bf16"}
"""Linux's names of the instruction sets that multiply bfloat16: two of x86-64, one of Arm."""


def instruction_sets() -> frozenset[str]:
    """Names as Linux has them; none where the system does not list them."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(name for line in lines if line.startswith(("flags", "Features")) for name in line.split()[2:])


def multiplies_bfloat16() -> bool:
    """Whether the processor itself multiplies bfloat16; where it does not, frameworks refuse it or emulate it."""
    return not BFLOAT16.isdisjoint(instruction_sets())
