"""The text of `bench doctor`: the machine, what protects its figures, its runtimes and its noise."""

from __future__ import annotations

from bench.features.doctor.examination import Examination
from bench.measure import processors
from bench.report.templates import fill


def render(examination: Examination) -> str:
    """A few paragraphs for a person."""
    width = max(12, 1 + max(len(runtime.name) for runtime in examination.runtimes))
    return fill(
        "features/doctor/doctor.j2",
        width=width,
        processor=processors.description(examination.facts),
        can=examination.protection,
        is_quiet=examination.is_quiet,
        **vars(examination),
    )
