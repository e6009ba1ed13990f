"""Ray's command line, which takes the loopback address for what it says.

Ray 2.60 replaces `127.0.0.1` by an address that other machines reach, and then listens on all addresses; with the
loopback address itself it listens there alone (`ray._private.services.resolve_ip_for_localhost`).
"""

from __future__ import annotations


def keep_loopback() -> None:
    """Let Ray in this process take the loopback address for what it says."""
    from ray._private import services

    services.resolve_ip_for_localhost = lambda host: host


def main() -> None:
    """Run Ray's command line."""
    keep_loopback()
    from ray.scripts.scripts import main as ray

    ray()
