"""Whether the metric of a task's reference is better than that of an answer which ignores the inputs."""

from __future__ import annotations

import msgspec

from bench.records.lines import Quality

_ADVICE = (
    "look whether the targets belong to these samples in this order, how classes are numbered, and how the inputs were "
    "prepared"
)


def note(reference: Quality) -> str | None:
    """Why the metric of a task tells nothing about outputs; None where it does, or that is unknown.

    Args:
        reference: the quality of the task's reference.
    """
    name, chance = reference.metric_name or "", reference.chance
    metric = (reference.metrics or {}).get(name)
    if metric is None or isinstance(chance, msgspec.UnsetType):
        return None
    if metric > chance if reference.higher_is_better else metric < chance:
        return None
    if chance >= 1 if reference.higher_is_better else chance <= 0:
        return f"these held-out samples are too few, or too much of one class, to tell {name} {metric:.4g} from chance"
    return f"{name} {metric:.4g} of the reference is no better than chance, which may reach {chance:.4g}; {_ADVICE}"
