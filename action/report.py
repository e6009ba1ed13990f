"""The report of the action: JSON for the job that comments, and a table in Markdown for people.

The job that measures runs the code of a pull request, so its report is the data of a stranger. `read` takes fields of
known types alone, and `markdown` puts each text into a code span, where GitHub makes no element, link, reference or
mention of it: a backslash or a character reference would not keep it from mentioning somebody.

The job that comments installs nothing, so this needs the standard library alone.

Source: https://github.com/github/cmark-gfm/issues/181 (mentions outside of code cannot be escaped)
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

VERSION = 1
OUTCOMES = ("error", "wrong", "regression", "undecided", "fine")
"""What can become of a model, the worst first."""
PASSING = ("undecided", "fine")
MOST_BYTES = 2**20
MOST_CHECKS = 100
MOST_CHARACTERS = 200
"""Of a text in the table: a comment of GitHub's has at most 65,536, and so do 100 models."""
LARGEST_RATIO = 1e9
ENDS_A_SPAN_OR_A_CELL = "`|"
DASH = "\N{EN DASH}"
TITLES = ("model", "latency, times the pinned one's", "outcome", "outputs")
LEGEND = "Each model took turns with the pinned one in one job. In brackets: the 95 % interval of the ratio."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """What became of one model.

    Attributes:
        pinned: path of the artifact to compare with.
        new: path of the artifact that was checked; empty where `pinned` is a saved pick, which is made anew.
        outcome: one of `OUTCOMES`.
        ratio: latency over that of the pinned artifact, and the ends of its 95 % interval, which may be unknown; None
            where nothing was measured.
        outputs: how close the outputs are; for an error, its message.
    """

    pinned: str
    new: str
    outcome: str
    ratio: tuple[float | None, ...] | None
    outputs: str


def worst(checks: Iterable[Check]) -> str:
    """The outcome of all checks together: that of the worst of them."""
    return min((check.outcome for check in checks), key=OUTCOMES.index)


def as_json(checks: Sequence[Check]) -> str:
    """The report for programs."""
    found = {"version": VERSION, "outcome": worst(checks), "checks": [dataclasses.asdict(check) for check in checks]}
    return json.dumps(found, indent=2, allow_nan=False) + "\n"


def read(path: Path) -> list[Check]:
    """The checks of a report that may have been written to do harm.

    Raises:
        ValueError: the file is no report.
    """
    if path.is_symlink() or not path.is_file():
        raise ValueError("there is no such file")
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    try:
        found = json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    match found:
        case {"version": 1, "checks": [*items]} if 1 <= len(items) <= MOST_CHECKS:
            return [_check(item) for item in items]
    raise ValueError("it has no list of checks")


def _check(item: Any) -> Check:
    match item:
        case {"pinned": str(pinned), "new": str(new), "outcome": str(outcome), "ratio": ratio, "outputs": str(outputs)}:
            if outcome in OUTCOMES and (ratio is None or _is_ratio(ratio)):
                return Check(pinned=pinned, new=new, outcome=outcome, ratio=ratio and tuple(ratio), outputs=outputs)
    raise ValueError("a check has other fields than it may have")


def _is_ratio(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and all(end is None or (type(end) in (int, float) and 0 <= end < LARGEST_RATIO) for end in value)
    )


def markdown(checks: Sequence[Check]) -> str:
    """The report for people, as GitHub shows it in a comment and in the summary of a job."""
    counts = Counter(check.outcome for check in checks)
    told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
    models = f"{len(checks)} model{'s' if len(checks) > 1 else ''}"
    lines = [
        (code(check.new or check.pinned), _interval(check.ratio), check.outcome, code(check.outputs))
        for check in checks
    ]
    rows = ["| " + " | ".join(line) + " |" for line in (TITLES, (":--", "--:", ":--", ":--"), *lines)]
    return "\n".join([f"{models} beside the pinned: {told}", "", *rows, "", LEGEND]) + "\n"


def code(text: str) -> str:
    """A stranger's text as a code span within a cell of a table.

    Escapes of Python's stand for the characters that end a span, a cell or a line, and for those that cannot be seen.
    """
    shown = "".join(
        char if char.isprintable() and char not in ENDS_A_SPAN_OR_A_CELL else _escape(char) for char in text
    )
    shown = shown if len(shown) <= MOST_CHARACTERS else f"{shown[: MOST_CHARACTERS - 1]}\N{HORIZONTAL ELLIPSIS}"
    return f"`{shown.strip()}`" if shown.strip() else DASH


def _escape(char: str) -> str:
    return f"\\x{ord(char):02x}" if char.isascii() else char.encode("unicode_escape").decode()


def _interval(ratio: tuple[float | None, ...] | None) -> str:
    if ratio is None:
        return DASH
    value, low, high = (DASH if end is None else f"{end:.3f}" for end in ratio)
    return f"{value} [{low}, {high}]"
