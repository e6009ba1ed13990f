"""What this machine's processor can do, told without importing a package."""

import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
BFLOAT16 = {"amx_bf16", "avx512_bf16", "bf16"}
"""Linux's names of the instruction sets that multiply bfloat16: two of x86-64, one of Arm."""

VNNI = {"avx512_vnni", "avx_vnni", "amx_int8"}
"""Linux's names of the instruction sets of x86-64 that sum up products of 8-bit integers in 32 bits."""


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


def sums_bytes_in_16_bits() -> bool:
    """Whether it sums up pairs of 8-bit products in 16 bits, which overflow unless weights have 7 bits.

    So do those of x86-64 without VNNI, by what ONNX Runtime advises.
    """
    return platform.machine().lower() in ("x86_64", "amd64") and VNNI.isdisjoint(instruction_sets())
