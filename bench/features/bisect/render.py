"""The release in which something changed, as a line for a terminal or as JSON."""

from __future__ import annotations

import dataclasses

from bench.features.bisect.bisecting import Bisected, told
from bench.report import writing


def render(found: Bisected, *, format: str) -> str:
    """The answer as `table` (a sentence) or `json`; the text ends in a newline."""
    if format == "json":
        return writing.as_json(dataclasses.asdict(found))
    good, bad = found.versions[0], found.versions[-1]
    steps = f"{len(found.steps)} step{'s' * (len(found.steps) != 1)}"
    if found.first_bad is None:
        return f"{_not_worse(found)}: {told(found.steps[0])}\n"
    left_out = [step.version for step in found.steps if step.failure is not None]
    also = f"; left out, because they cannot be measured: {', '.join(left_out)}" if left_out else ""
    where = {version: index for index, version in enumerate(found.versions)}
    assert found.last_good is not None
    if hidden := found.versions[where[found.last_good] + 1 : where[found.first_bad]]:
        also += f", of which {' or '.join(hidden)} may have brought the change"
    if partly := dict.fromkeys(step.version for step in found.steps if step.is_between):
        also += f"; slower than {good} and faster than {bad}: {', '.join(partly)}, so several releases brought a part"
    if found.is_cut:
        also += "; the budget ended before it was surer"
    first = "likeliest first bad one" if found.is_cut else "first bad one"
    return (
        f"{found.package} {found.first_bad} is the {first} of {len(found.versions)} releases, after {found.last_good}: "
        f"{told(found.steps[0])} in {bad}. Chance that this is wrong: {writing.share(found.chance_of_error)}, "
        f"after {steps}{also}\n"
    )


def _not_worse(found: Bisected) -> str:
    """What is known of a bad release that was not found to be worse."""
    good, bad, ratio = found.versions[0], found.versions[-1], found.steps[0].ratio
    if ratio is None or found.by is None:
        return f"{found.package} {bad} is no worse than {good}"
    if ratio.high < 1 + found.by:
        return f"{found.package} {bad} is not {100 * found.by:.3g} % slower than {good}"
    return f"it is not clear whether {found.package} {bad} is slower than {good}, on a quieter machine it may be"
