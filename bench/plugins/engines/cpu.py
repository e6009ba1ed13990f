"""Instruction sets of this machine's processor, read without importing a package."""

import functools
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
BFLOAT16 = {"amx_bf16", "avx512_bf16", "bf16"}
"""Linux's names of the instruction sets that multiply bfloat16: two of x86-64, one of Arm."""

_VNNI = {"avx512_vnni", "avx_vnni", "amx_int8"}
"""Linux's names of the instruction sets of x86-64 that sum up products of 8-bit integers in 32 bits."""


def instruction_sets() -> frozenset[str]:
    """Linux's names of the processor's instruction sets; empty on a system that does not list them."""
    return _listed(CPUINFO)


@functools.cache
def _listed(path: Path) -> frozenset[str]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(name for line in lines if line.startswith(("flags", "Features")) for name in line.split()[2:])


def multiplies_bfloat16() -> bool:
    """Whether the processor has instructions that multiply bfloat16; without them, frameworks refuse or emulate it."""
    return not BFLOAT16.isdisjoint(instruction_sets())


def sums_bytes_in_16_bits() -> bool:
    """Whether the processor adds pairs of 8-bit products in 16 bits, which overflow unless weights have 7 bits.

    Source: ONNX Runtime's advice on quantization, by which processors of x86-64 without VNNI do so.
    """
    return platform.machine().lower() in ("x86_64", "amd64") and _VNNI.isdisjoint(instruction_sets())
