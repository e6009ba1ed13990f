"""The action where it may write: one comment on the right pull request, in which a stranger's report is text alone."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from bench.api.loading import load_module
from support import fake_gh
from support.github import Ran, run_action

ACTION = Path(__file__).parents[2] / "action" / "comment"
MARK = "<!-- inferometer -->"
BOT = {"login": "github-actions[bot]"}
RUN = {
    "id": 4711,
    "head_sha": "a" * 40,
    "head_branch": "faster",
    "head_repository": {"owner": {"login": "stranger"}},
}
ADDRESS = "https://github.example/owner/project/actions/runs/4711"
HOSTILE = {
    "mention": "@octocat and @octo-org/team",
    "mention in code": "`@octocat`",
    "mention in longer code": "`` `@octocat` ``` @octocat",
    "mention after a backslash": "\\`@octocat\\",
    "mention as a reference": "&#64;octocat &commat;octocat",
    "cells": "a | @octocat | b \\| @octocat \\\\| @octocat",
    "lines": "a\n\n# @octocat\r\n> @octocat\x0b@octocat",
    "separators": "a\u2028@octocat\u2029@octocat\x85@octocat",
    "directions": "\u202e@octocat\u2066\u200b\x1b[2J\ud800",
    "elements": "<img src=x onerror=alert(1)><details><a href=https://evil.example>@octocat</a></code></td></table>",
    "comments": f"{MARK} --> <!-- @octocat",
    "links": "[a](https://evil.example) ![](https://evil.example/x.png) <https://evil.example> https://evil.example",
    "addresses": "www.evil.example octocat@evil.example mailto:octocat@evil.example",
    "references": "#1 GH-1 owner/project#1 0123456789abcdef0123456789abcdef01234567",
    "formulas": "$@octocat$ $$@octocat$$ ```math @octocat",
    "blanks": " \t ",
    "nothing": "",
    "much": "@octocat " * 10_000,
}


class Project:
    """A project on a stand-in for GitHub, with the pull request 7 of a fork; 8 is of a branch with the same name.

    Attributes:
        state: what the stand-in holds, see `fake_gh`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._gh = folder / "bin" / "gh"
        self._gh.parent.mkdir()
        self._gh.write_text(f'#!/bin/sh\nexec {sys.executable} {fake_gh.__file__} "$@"\n')
        self._gh.chmod(0o755)
        (folder / "workspace").mkdir()
        self.report = folder / "artifact"
        self.report.mkdir()
        self.state: dict[str, Any] = {
            "report": str(self.report),
            "pulls": [pull(7, "stranger:faster", "a" * 40), pull(8, "owner:faster", "a" * 40)],
            "comments": {"7": [], "8": []},
            "calls": [],
        }

    def measured(self, *checks: Any, **more: Any) -> None:
        """Write the report of the run that measured."""
        (self.report / "report.json").write_text(json.dumps({"version": 1, "checks": checks, **more}))

    def run(self) -> Ran:
        """Run the steps of the action, as a workflow on the event `workflow_run` does."""
        file, event = self._folder / "state.json", self._folder / "event.json"
        file.write_text(json.dumps(self.state))
        event.write_text(json.dumps({"workflow_run": RUN}))
        ran = run_action(
            ACTION,
            {},
            workspace=self._folder / "workspace",
            environment={
                "PATH": f"{self._gh.parent}{os.pathsep}{os.environ['PATH']}",
                "FAKE_GH": str(file),
                "GITHUB_REPOSITORY": "owner/project",
                "GITHUB_SERVER_URL": "https://github.example",
                "GITHUB_EVENT_PATH": str(event),
            },
            context={"github.token": "a token", "github.event.workflow_run.id": "4711"},
        )
        self.state = json.loads(file.read_text())
        return ran

    def comments(self, number: int = 7) -> list[str]:
        """The comments on a pull request."""
        return [comment["body"] for comment in self.state["comments"][str(number)]]

    def num_written(self) -> int:
        """Calls that changed something."""
        return sum("POST" in call or "PATCH" in call for call in self.state["calls"])


def pull(number: int, label: str, sha: str) -> dict[str, Any]:
    return {"number": number, "head": {"label": label, "sha": sha}}


def check(**fields: Any) -> dict[str, Any]:
    good = {"pinned": "base/m.onnx", "new": "head/m.onnx", "outcome": "fine", "outputs": "exact"}
    return {**good, "ratio": [1.003, 0.991, 1.015], **fields}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_the_comment_is_written_once_and_then_edited(project: Project) -> None:
    project.measured(check(), check(new="head/n.onnx", outcome="regression", ratio=[1.2, 1.1, 1.3]))
    assert project.run().code == 0
    (first,) = project.comments()
    assert first.splitlines() == [
        MARK,
        "2 models beside the pinned: 1 regression, 1 fine",
        "",
        "| model | latency, times the pinned one's | outcome | outputs |",
        "| :-- | --: | :-- | :-- |",
        "| `head/m.onnx` | 1.003 [0.991, 1.015] | fine | `exact` |",
        "| `head/n.onnx` | 1.200 [1.100, 1.300] | regression | `exact` |",
        "",
        "Each model took turns with the pinned one in one job. In brackets: the 95 % interval of the ratio.",
        "",
        f"[The run that measured]({ADDRESS})",
    ]
    project.measured(check(outcome="wrong", outputs="broken"))
    assert project.run().code == 0
    (second,) = project.comments()
    assert "1 model beside the pinned: 1 wrong" in second
    assert project.comments(8) == [], "the branch of that name is another's"


def test_comments_of_others_stay(project: Project) -> None:
    others = [
        {"id": 1, "user": {"login": "stranger"}, "body": f"{MARK} mine"},
        {"id": 2, "user": BOT, "body": f"of another workflow {MARK}"},
        {"id": 3, "user": None, "body": MARK},
        *({"id": 10 + number, "user": {"login": "owner"}, "body": "fine"} for number in range(97)),
    ]
    own = {"id": 500, "user": BOT, "body": f"{MARK}\nof an earlier run"}
    project.state["comments"]["7"] = [*others, own]  # on the second page
    project.measured(check())
    assert project.run().code == 0
    assert project.state["comments"]["7"][:-1] == others
    assert project.comments()[-1].startswith(f"{MARK}\n1 model beside the pinned: 1 fine\n")


def test_a_pull_request_that_has_changed_since_gets_no_comment(project: Project) -> None:
    project.state["pulls"][0]["head"]["sha"] = "b" * 40
    project.measured(check())
    assert project.run().code == 0
    assert project.num_written() == 0


def test_without_a_report_nothing_is_written(project: Project) -> None:
    project.state["report"] = None
    assert project.run().code == 1
    assert project.num_written() == 0


def test_no_text_of_a_report_is_more_than_text(project: Project) -> None:
    checks = [check(new=text, pinned=text, outputs=text, **{text[:50]: text}) for text in HOSTILE.values()]
    project.measured(*checks, check(), outcome=HOSTILE["mention"])
    ran = project.run()
    (body,) = project.comments()
    assert "octocat" not in ran.log
    assert "\\|" not in body, "renderers differ in what ends a cell"
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    kinds = [token.type for token in tokens]
    assert kinds.count("html_block") == 1, "the mark"
    num_rows = len(HOSTILE) + 1
    assert [kinds.count(f"{kind}_open") for kind in ("table", "tr", "td")] == [1, num_rows + 1, 4 * num_rows]
    parts = [child for token in tokens for child in token.children or []]
    assert {part.type for part in parts} <= {"text", "code_inline", "link_open", "link_close"}
    assert [part.attrs for part in parts if part.type == "link_open"] == [{"href": ADDRESS}]
    outside = " ".join(part.content for part in parts if part.type == "text")
    assert re.search(r"[@#<>&$\\]|evil|octocat|GH-|0123", outside) is None
    shown = [code_of(cell) for cell in cells(tokens)]
    rows = [shown[first : first + 4] for first in range(0, len(shown), 4)]
    assert rows.pop() == [["head/m.onnx"], [], [], ["exact"]]
    for text, row in zip(HOSTILE.values(), rows, strict=True):
        model, *others, outputs = row
        assert (model, others) == (outputs, [[], []])
        assert len(model) == (1 if text else 0), text
        told = "".join(model)
        assert told.isprintable()
        assert len(told) <= 200
        assert ("octocat" in told) == ("octocat" in text)


def cells(tokens: list[Token]) -> Iterator[Token]:
    """What is in each cell of a table, but for the titles."""
    yield from (inline for cell, inline in itertools.pairwise(tokens) if cell.type == "td_open")


def code_of(cell: Token) -> list[str]:
    return [part.content for part in cell.children or [] if part.type == "code_inline"]


DAMAGED = {
    "no JSON": "@octocat",
    "no UTF-8": b"\xff@octocat",
    "no object": "[]",
    "another version": {"version": 2, "checks": [check()]},
    "no checks": {"version": 1, "checks": []},
    "many checks": {"version": 1, "checks": [check()] * 101},
    "checks of another kind": {"version": 1, "checks": "@octocat"},
    "a check of another kind": {"version": 1, "checks": ["@octocat"]},
    "another outcome": {"version": 1, "checks": [check(outcome="@octocat")]},
    "no text": {"version": 1, "checks": [check(outputs=["@octocat"])]},
    "a ratio of text": {"version": 1, "checks": [check(ratio=["@octocat", 1.0, 1.0])]},
    "a ratio of truth": {"version": 1, "checks": [check(ratio=[True, 1.0, 1.0])]},
    "two ends": {"version": 1, "checks": [check(ratio=[1.0, 1.0])]},
    "not a number": {"version": 1, "checks": [check(ratio=[float("nan"), 1.0, 1.0])]},
    "a large number": {"version": 1, "checks": [check(ratio=[10**300, 1.0, 1.0])]},
    "digits": '{"version": 1, "checks": ' + "9" * 5000 + "}",
    "depth": "[" * 100_000,
    "size": json.dumps({"version": 1, "checks": [check()]}) + " " * 2**20,
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_what_is_no_report_is_refused(content: Any, tmp_path: Path) -> None:
    text = json.dumps(content) if isinstance(content, dict) else content
    path = tmp_path / "report.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError):  # noqa: PT011
        load_module(ACTION.parent / "report.py").read(path)


def test_a_refusal_says_nothing_of_the_report(project: Project) -> None:
    (project.report / "report.json").write_text("@octocat\n::error::@octocat")
    ran = project.run()
    assert (ran.code, ran.log) == (1, "report.json is no report of this action\n")
    assert project.num_written() == 0


def test_a_link_to_another_file_is_not_followed(project: Project, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(json.dumps({"version": 1, "checks": [check()]}))
    (project.report / "report.json").symlink_to(tmp_path / "other.json")
    ran = project.run()
    assert (ran.code, ran.log) == (1, "report.json is no report of this action\n")
