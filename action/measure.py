"""What the action runs where it measures: `bench check` for each pair of artifacts, and a report of them all.

    python3 measure.py BENCH

`BENCH` is the command. The inputs of the action are environment variables: `PINNED` and `NEW` have a path in each line,
`OPTIONS` more options of `bench check`. The folder `inferometer-report` in `$RUNNER_TEMP` gets `report.json` and
`report.md`, the summary of the job the same table. Exits with 1 when a model is slower, wrong or could not be measured.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import report
from report import Check

FOLDER = "inferometer-report"
CHECKED = (0, 1)
"""Exit codes of `bench check` that say how the new artifact is; with 1 and no answer it has failed."""


def pairs(pinned: str, new: str) -> list[tuple[str, str]]:
    """The artifacts to compare: paths of both inputs, line by line; without a new one, a saved pick is made anew.

    Raises:
        SystemExit: the inputs have different numbers of lines, or too many.
    """
    olds, news = ([line.strip() for line in text.splitlines() if line.strip()] for text in (pinned, new))
    if not olds or len(olds) > report.MOST_CHECKS:
        raise SystemExit(f"the input `pinned` names {len(olds)} artifacts; 1 to {report.MOST_CHECKS} are allowed")
    if news and len(news) != len(olds):
        raise SystemExit(f"the input `new` names {len(news)} artifacts and `pinned` {len(olds)}: write one a line")
    return list(zip(olds, news or [""] * len(olds), strict=True))


def checked(bench: str, pinned: str, new: str, options: Sequence[str]) -> Check:
    """What `bench check` says of one pair; its messages go to the log as they come."""
    paths = [pinned, new] if new else [pinned]
    command = [bench, "check", *options, "--format", "json", "--", *paths]
    last = ""
    with tempfile.TemporaryFile() as answer:
        with subprocess.Popen(command, stdout=answer, stderr=subprocess.PIPE, text=True, errors="replace") as process:
            assert process.stderr is not None
            for line in process.stderr:
                sys.stderr.write(line)
                last = line.strip().removeprefix("bench: ") or last
        answer.seek(0)
        text = answer.read()
    if process.returncode not in CHECKED or not text:
        said = last or f"bench check ended with {process.returncode}"
        return Check(pinned=pinned, new=new, outcome="error", ratio=None, outputs=said)
    found = json.loads(text)
    ratio = found["ratio"]
    return Check(
        pinned=pinned,
        new=new,
        outcome="wrong" if found["fault"] is not None else found["verdict"],
        ratio=(ratio["value"], ratio["low"], ratio["high"]),
        outputs=found["outputs"],
    )


def main() -> int:
    """Check each pair and write the report; returns the exit code."""
    (bench,) = sys.argv[1:]
    wanted = pairs(os.environ["PINNED"], os.environ["NEW"])
    options = shlex.split(os.environ["OPTIONS"])
    folder = Path(os.environ["RUNNER_TEMP"], FOLDER)
    checks = [checked(bench, pinned, new, options) for pinned, new in wanted]
    outcome, table = report.worst(checks), report.markdown(checks)
    folder.mkdir(exist_ok=True)
    for name, text in (("report.json", report.as_json(checks)), ("report.md", table)):
        (folder / name).write_text(text, encoding="utf-8")
    with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as summary:
        summary.write(table)
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as outputs:
        outputs.write(f"outcome={outcome}\nreport={folder}\n")
    return 0 if outcome in report.PASSING else 1


if __name__ == "__main__":
    sys.exit(main())
