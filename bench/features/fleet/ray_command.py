"""Ray's command line, which takes the loopback address for what it says and serves nothing that a fleet does not need.

Ray 2.60 replaces `127.0.0.1` by an address that other machines reach, and then listens on all addresses; with the
loopback address itself it listens there alone (`ray._private.services.resolve_ip_for_localhost`). With its optional
packages, it would also serve its client protocol, HTTP and metrics, of which metrics ask for no token.
"""

from __future__ import annotations


def keep_loopback() -> None:
    """Let Ray in this process take the loopback address for what it says."""
    from ray._private import services

    services.resolve_ip_for_localhost = lambda host: host


def serve_little() -> None:
    """Let Ray in this process start machines as if its optional packages were not installed."""
    from ray._private import utils
    from ray.scripts import scripts

    missing = ImportError("a fleet does not need it")
    utils.get_dashboard_dependency_error = lambda: missing
    scripts.get_ray_client_dependency_error = lambda: missing


def main() -> None:
    """Run Ray's command line."""
    keep_loopback()
    serve_little()
    from ray.scripts.scripts import main as ray

    ray()
