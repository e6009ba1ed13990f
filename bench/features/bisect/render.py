"""The release in which something changed, as a line for a terminal or as JSON."""

from __future__ import annotations

import dataclasses

from bench.features.bisect.bisecting import Bisected, description
from bench.report import writing


def render(answer: Bisected, *, format: str) -> str:
    """The answer as `table` (a sentence) or `json`; the text ends in a newline."""
    if format == "json":
        return writing.as_json(dataclasses.asdict(answer))
    good, bad = answer.versions[0], answer.versions[-1]
    steps = f"{len(answer.steps)} step{'s' * (len(answer.steps) != 1)}"
    if answer.first_bad is None:
        return f"{_not_worse(answer)}: {description(answer.steps[0])}\n"
    left_out = [step.version for step in answer.steps if step.failure is not None]
    also = f"; left out, because they cannot be measured: {', '.join(left_out)}" if left_out else ""
    where = {version: index for index, version in enumerate(answer.versions)}
    assert answer.last_good is not None
    if hidden := answer.versions[where[answer.last_good] + 1 : where[answer.first_bad]]:
        also += f", of which {' or '.join(hidden)} may have brought the change"
    if partly := dict.fromkeys(step.version for step in answer.steps if step.is_between):
        also += f"; slower than {good} and faster than {bad}: {', '.join(partly)}, so several releases brought a part"
    if answer.is_cut:
        also += "; the budget ended before it was surer"
    first = "likeliest first bad one" if answer.is_cut else "first bad one"
    return (
        f"{answer.package} {answer.first_bad} is the {first} of {len(answer.versions)} releases, "
        f"after {answer.last_good}: "
        f"{description(answer.steps[0])} in {bad}. Chance that this is wrong: {writing.share(answer.chance_of_error)}, "
        f"after {steps}{also}\n{f'{answer.blame}{chr(10)}' if answer.blame else ''}"
    )


def _not_worse(answer: Bisected) -> str:
    """What is known of a bad release that was not found to be worse."""
    good, bad, ratio = answer.versions[0], answer.versions[-1], answer.steps[0].ratio
    if ratio is None or answer.by is None:
        return f"{answer.package} {bad} is no worse than {good}"
    if ratio.high < 1 + answer.by:
        return f"{answer.package} {bad} is not {100 * answer.by:.3g} % slower than {good}"
    return f"it is not clear whether {answer.package} {bad} is slower than {good}, on a quieter machine it may be"
