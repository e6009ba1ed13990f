"""`bench doctor`: the machine, its runtimes and its noise."""

from __future__ import annotations

from bench.cli import options


def doctor() -> None:
    """What this machine can run, and how noisy it is just now."""
    from bench.features.doctor.examination import examine
    from bench.features.doctor.render import render
    from bench.report.terminal import Console

    with Console().status("measuring this machine's noise"):
        examination = examine()
    options.write(render(examination), None)


COMMANDS = {"Maintain": {"doctor": doctor}}
"""The command, under its heading of `bench --help`."""
