"""The workflows in docs/guard.md with their actions, and that of releases: GitHub takes them; they may do little."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / "docs" / "examples" / "workflows"
ACTIONS = {"OWNER/inferometer": ROOT, "OWNER/inferometer/action/comment": ROOT / "action" / "comment"}
"""The folders of this repository's actions, by what workflows call them."""
GIVEN = sorted([*WORKFLOWS.iterdir(), *(folder / "action.yml" for folder in ACTIONS.values())])
"""What projects of others use."""
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
FILES = [*GIVEN, RELEASE]
TEXTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
LEVEL = {"enum": ["read", "write", "none"]}
PERMISSIONS = {
    "type": "object",
    "properties": {"actions": LEVEL, "contents": LEVEL, "pull-requests": LEVEL},
    "additionalProperties": False,
}
STEP = {
    "type": "object",
    "properties": {
        **{key: {"type": "string"} for key in ("id", "if", "name", "uses", "run", "shell")},
        "with": TEXTS,
        "env": TEXTS,
    },
    "oneOf": [{"required": ["uses"]}, {"required": ["run"]}],
    "additionalProperties": False,
}
STEPS = {"type": "array", "items": STEP, "minItems": 1}
JOB = {
    "type": "object",
    "properties": {
        **{key: {"type": "string"} for key in ("name", "needs", "runs-on", "if")},
        "permissions": PERMISSIONS,
        "timeout-minutes": {"type": "number"},
        "steps": STEPS,
    },
    "required": ["runs-on", "steps"],
    "additionalProperties": False,
}
NAMES: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "minItems": 1}
WORKFLOW_RUN = {
    "type": "object",
    "properties": {"workflows": NAMES, "types": {"type": "array", "items": {"enum": ["completed"]}}},
    "required": ["workflows"],
    "additionalProperties": False,
}
PUSH = {"type": "object", "properties": {"tags": NAMES}, "required": ["tags"], "additionalProperties": False}
WORKFLOW = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "on": {
            "anyOf": [
                {"const": "pull_request"},
                {
                    "type": "object",
                    "properties": {"workflow_run": WORKFLOW_RUN, "push": PUSH},
                    "additionalProperties": False,
                },
            ]
        },
        "permissions": PERMISSIONS,
        "concurrency": {
            "type": "object",
            "properties": {"group": {"type": "string"}, "cancel-in-progress": {"type": "boolean"}},
            "required": ["group"],
            "additionalProperties": False,
        },
        "jobs": {
            "type": "object",
            "patternProperties": {"^[_a-zA-Z][a-zA-Z0-9_-]*$": JOB},
            "minProperties": 1,
            "additionalProperties": False,
        },
    },
    "required": ["on", "jobs"],
    "additionalProperties": False,
}
"""The part of the schema of workflows that these need.

Source: https://json.schemastore.org/github-workflow.json, definitions `normalJob`, `step`, `permissions-event`, `env`.
"""
STRING = {"type": "string"}
VALUE = {"type": "object", "properties": {"description": STRING, "value": STRING}, "required": ["value"]}
INPUT = {
    "type": "object",
    "properties": {"description": STRING, "default": STRING, "required": {"type": "boolean"}},
    "required": ["description"],
    "additionalProperties": False,
}
SHELL_STEP = {**STEP, "dependentRequired": {"run": ["shell"]}}
ACTION = {
    "type": "object",
    "properties": {
        "name": STRING,
        "description": STRING,
        "inputs": {"type": "object", "additionalProperties": INPUT},
        "outputs": {"type": "object", "additionalProperties": VALUE},
        "runs": {
            "type": "object",
            "properties": {"using": {"const": "composite"}, "steps": {**STEPS, "items": SHELL_STEP}},
            "required": ["using", "steps"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "description", "runs"],
    "additionalProperties": False,
}
"""The part of the schema of composite actions that these need; a step with `run` must name its shell.

Source: https://json.schemastore.org/github-action.json, definition `runs-composite`.
"""


def parsed(path: Path) -> Any:
    # YAML 1.1 reads the key `on` as true.
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in found.items()}


def steps(path: Path) -> list[dict[str, Any]]:
    """Every step of a workflow or an action."""
    found = parsed(path)
    jobs = found["jobs"].values() if "jobs" in found else [found["runs"]]
    return [step for job in jobs for step in job["steps"]]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_schema_takes_it(path: Path) -> None:
    schema = ACTION if path.name == "action.yml" else WORKFLOW
    jsonschema.Draft202012Validator(schema).validate(parsed(path))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_script_has_a_value_filled_in(path: Path) -> None:
    """Whatever a stranger may choose would be code there: values reach scripts as environment variables."""
    assert [step["run"] for step in steps(path) if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    pinned = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
    assert [step["uses"] for step in steps(path) if "uses" in step and not pinned.fullmatch(step["uses"])] == []


@pytest.mark.parametrize("path", GIVEN, ids=name_of)
def test_no_code_of_a_pull_request_gets_a_token_that_may_write(path: Path) -> None:
    found = parsed(path)
    assert "pull_request_target" not in path.read_text(encoding="utf-8")
    if "jobs" not in found:
        return
    assert found["permissions"] == {}
    for job in found["jobs"].values():
        uses = [step.get("uses", "").partition("@")[0] for step in job["steps"]]
        if "write" not in job["permissions"].values():
            assert job["permissions"] == {"contents": "read"}
            given = [step["with"] for step, name in zip(job["steps"], uses, strict=True) if name == "actions/checkout"]
            assert [one["persist-credentials"] for one in given] == [False, False]
        else:
            assert found["on"] != "pull_request"
            assert job["permissions"] == {"actions": "read", "pull-requests": "write"}
            assert uses == ["OWNER/inferometer/action/comment"], "it checks out nothing and runs no other action"


def test_each_workflow_uses_an_action_as_its_file_says() -> None:
    used = [
        (ACTIONS[name], step.get("with", {}))
        for path in WORKFLOWS.iterdir()
        for step in steps(path)
        if (name := step.get("uses", "").partition("@")[0]) in ACTIONS
    ]
    assert {folder for folder, _ in used} == set(ACTIONS.values())
    for folder, given in used:
        known = parsed(folder / "action.yml").get("inputs", {})
        assert {name for name, one in known.items() if one.get("required")} <= set(given) <= set(known)


def test_the_comment_follows_the_run_that_measures_and_takes_its_report() -> None:
    measure, comment = parsed(WORKFLOWS / "benchmark.yml"), parsed(WORKFLOWS / "benchmark-comment.yml")
    assert comment["on"]["workflow_run"] == {"workflows": [measure["name"]], "types": ["completed"]}
    (upload,) = (step for step in steps(WORKFLOWS / "benchmark.yml") if "upload-artifact" in step.get("uses", ""))
    (script,) = (step["run"] for step in steps(ACTIONS["OWNER/inferometer/action/comment"] / "action.yml"))
    assert f"--name {upload['with']['name']} " in script
    (guard,) = (step for step in steps(WORKFLOWS / "benchmark.yml") if step.get("id") == "guard")
    assert "OWNER/inferometer@" in guard["uses"]
    outputs = set(re.findall(r"steps\.guard\.outputs\.(\w+)", (WORKFLOWS / "benchmark.yml").read_text()))
    assert outputs == {"report"} <= set(parsed(ROOT / "action.yml")["outputs"])


def script(name: str) -> str:
    """The script of a step of the workflow of a release."""
    (found,) = (step["run"] for step in steps(RELEASE) if step.get("name") == name)
    return str(found)


def test_a_release_is_of_a_tag_and_what_is_published_was_checked() -> None:
    found = parsed(RELEASE)
    assert found["on"] == {"push": {"tags": ["v*"]}}
    jobs = found["jobs"]
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "build": None,
        "check": "build",
        "attach": "check",
    }
    taken = [step["with"] for step in steps(RELEASE) if "-artifact@" in step.get("uses", "")]
    assert {(one["name"], one["path"]) for one in taken} == {("dist", "dist")}
    assert len(taken) == 3, "each job has the files of the first"


def test_only_the_job_that_attaches_may_write_and_it_runs_no_code_of_the_repository() -> None:
    found = parsed(RELEASE)
    assert found["permissions"] == {}
    given = {name: job["permissions"] for name, job in found["jobs"].items()}
    assert given == {"build": {"contents": "read"}, "check": {}, "attach": {"contents": "write"}}
    with_token = [step["name"] for step in steps(RELEASE) if "github.token" in str(step)]
    assert with_token == ["Attach"]
    checkouts = {
        name: [step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        for name, job in found["jobs"].items()
    }
    assert checkouts == {"build": [{"persist-credentials": False}], "check": [], "attach": []}


@pytest.mark.parametrize("exists", [False, True])
def test_the_files_are_attached_to_the_release_of_the_tag(exists: bool, tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    for name in ("a.tar.gz", "a.whl"):
        (tmp_path / "dist" / name).touch()
    gh = tmp_path / "gh"
    gh.write_text(f'#!/bin/sh\necho "$1 $2 $3 $4 $5" >> calls\n[ "$2" != view ] || exit {int(not exists)}\n')
    gh.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.defpath}", "GITHUB_REF_NAME": "v1.2.3", "GITHUB_REPOSITORY": "o/r"}
    subprocess.run(["bash", "-e", "-c", script("Attach")], cwd=tmp_path, env=environment, check=True)
    viewed, attached = (tmp_path / "calls").read_text().splitlines()
    assert viewed.startswith("release view v1.2.3")
    assert attached == f"release {'upload' if exists else 'create'} v1.2.3 dist/a.tar.gz dist/a.whl"


def test_address_in_the_docs_is_that_of_the_wheel_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    named = re.findall(
        r"https://github\.com/OWNER/inferometer/releases/[^\s'`]+", (ROOT / "docs" / "quickstart.md").read_text()
    )
    folder = f"https://github.com/OWNER/inferometer/releases/download/v{version}"
    assert set(named) == {f"{folder}/inferometer-{version}-py3-none-any.whl"}
    assert "dist/inferometer-${GITHUB_REF_NAME#v}-py3-none-any.whl" in script("Build")
