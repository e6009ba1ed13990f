"""Which graphics processors there are, told without importing a package."""

from pathlib import Path

NVIDIA = Path("/dev/nvidiactl")
"""There as long as NVIDIA's driver is loaded on Linux."""


def has_nvidia() -> bool:
    """Whether an NVIDIA driver is at work."""
    return NVIDIA.exists()
