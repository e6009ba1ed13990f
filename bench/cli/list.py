"""`bench list`: every plugin on the search path, and whether it works here."""

from __future__ import annotations

from bench.cli import options


def list_() -> None:
    """Tasks, exporters, variants, runtimes and providers: usable, or why not and what would fix it."""
    from bench.decisions.listing import listed
    from bench.report.listing import render

    options.write(render(listed()), None)
