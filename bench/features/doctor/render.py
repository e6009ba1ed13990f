"""The text of `bench doctor`: the machine, what protects its figures, its runtimes and its noise."""

from __future__ import annotations

from bench.features.doctor.examination import Examination
from bench.measure import processors
from bench.report.templates import fill


def render(found: Examination) -> str:
    """A few paragraphs for a person."""
    width = max(12, 1 + max(len(one.name) for one in found.runtimes))
    return fill(
        "features/doctor/doctor.j2",
        width=width,
        processor=processors.description(found.facts),
        can=found.protection,
        is_quiet=found.is_quiet,
        **vars(found),
    )
