"""Whether this machine has a graphics processor, determined without importing a package."""

from pathlib import Path

NVIDIA = Path("/dev/nvidiactl")
"""A device file that exists as long as NVIDIA's driver is loaded on Linux."""


def has_nvidia() -> bool:
    """Whether an NVIDIA driver is loaded."""
    return NVIDIA.exists()
