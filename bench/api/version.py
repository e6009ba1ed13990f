"""The version of this package."""

from __future__ import annotations


def version() -> str | None:
    """The version that is installed; None where the package is run from its sources and is not installed."""
    from importlib import metadata  # only here: every measured process would have to import it

    try:
        return metadata.version("inferometer")
    except metadata.PackageNotFoundError:
        return None
