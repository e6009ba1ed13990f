"""What the action runs where it may write: the report of another run, as a comment on the pull request it is about.

    python3 comment.py REPORT

`REPORT` is the file `report.json` of that run. It is read as the data of a stranger: which pull request it is about is
taken from GitHub's event alone, and no text of the report reaches the log or stands in the comment but within code.
Needs the command `gh` and the standard library.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import report

MARK = "<!-- inferometer -->"
"""Begins the comment, by which it is found again."""
AUTHOR = "github-actions[bot]"
PAGE = 100


def ask(path: str, *options: str, body: str | None = None) -> Any:
    """The answer of GitHub's interface to a request, which writes a comment where it has a body."""
    command = ["gh", "api", path, *options, *(() if body is None else ("--input", "-"))]
    content = None if body is None else json.dumps({"body": body})
    found = subprocess.run(command, input=content, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(found.stdout)


def pull_requests(repository: str, run: Any) -> Iterator[int]:
    """Numbers of the open pull requests whose newest commit is the one that was measured.

    The event of a run for a fork names no pull request, so they are looked up by the branch.
    """
    branch = f"{run['head_repository']['owner']['login']}:{run['head_branch']}"
    asked = ("--method", "GET", "-f", "state=open", "-f", f"head={branch}")
    for found in ask(f"repos/{repository}/pulls", *asked):
        if found["head"]["sha"] == run["head_sha"]:
            yield found["number"]


def earlier(repository: str, number: int) -> int | None:
    """The identifier of the comment that an earlier run wrote; None where there is none."""
    for page in itertools.count(1):
        found = ask(f"repos/{repository}/issues/{number}/comments?per_page={PAGE}&page={page}")
        for comment in found:
            if (comment["user"] or {}).get("login") == AUTHOR and comment["body"].startswith(MARK):
                return int(comment["id"])
        if len(found) < PAGE:
            return None
    raise AssertionError("the last page is shorter")


def main() -> None:
    """Write the comment on each pull request, or edit the one that is there."""
    repository = os.environ["GITHUB_REPOSITORY"]
    run = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))["workflow_run"]
    try:
        checks = report.read(Path(sys.argv[1]))
    except ValueError as error:  # whose message may quote the file
        raise SystemExit("report.json is no report of this action") from error
    address = f"{os.environ['GITHUB_SERVER_URL']}/{repository}/actions/runs/{int(run['id'])}"
    body = f"{MARK}\n{report.markdown(checks)}\n[The run that measured]({address})\n"
    for number in pull_requests(repository, run):
        known = earlier(repository, number)
        if known is None:
            ask(f"repos/{repository}/issues/{number}/comments", "--method", "POST", body=body)
        else:
            ask(f"repos/{repository}/issues/comments/{known}", "--method", "PATCH", body=body)


if __name__ == "__main__":
    main()
