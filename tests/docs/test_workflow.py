"""The workflow in docs/guard.md: GitHub would take it, it may do no more than it must, and its script works."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

yaml = pytest.importorskip("yaml")

PATH = Path(__file__).parents[2] / "docs" / "examples" / "workflows" / "benchmark.yml"
TEXTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
LEVEL = {"enum": ["read", "write", "none"]}
PERMISSIONS = {
    "type": "object",
    "properties": {"contents": LEVEL, "pull-requests": LEVEL},
    "additionalProperties": False,
}
STEP = {
    "type": "object",
    "properties": {
        **{key: {"type": "string"} for key in ("id", "if", "name", "uses", "run")},
        "with": TEXTS,
        "env": TEXTS,
    },
    "oneOf": [{"required": ["uses"]}, {"required": ["run"]}],
    "additionalProperties": False,
}
JOB = {
    "type": "object",
    "properties": {
        **{key: {"type": "string"} for key in ("name", "needs", "runs-on", "if")},
        "permissions": PERMISSIONS,
        "outputs": {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
        "timeout-minutes": {"type": "number"},
        "steps": {"type": "array", "items": STEP, "minItems": 1},
    },
    "required": ["runs-on", "steps"],
    "additionalProperties": False,
}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "on": {"enum": ["pull_request"]},
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
"""The part of the schema of workflows that this one needs.

Source: https://json.schemastore.org/github-workflow.json, definitions `normalJob`, `step`, `permissions-event`, `env`.
"""


@pytest.fixture(scope="module")
def workflow() -> Any:
    # YAML 1.1 reads the key `on` as true.
    return {"on" if key is True else key: value for key, value in yaml.safe_load(PATH.read_text()).items()}


def test_the_schema_takes_it(workflow: Any) -> None:
    jsonschema.Draft7Validator(SCHEMA).validate(workflow)


def test_it_may_do_no_more_than_it_must(workflow: Any) -> None:
    assert workflow["permissions"] == {}
    assert {name: job["permissions"] for name, job in workflow["jobs"].items()} == {
        "measure": {"contents": "read"},
        "comment": {"pull-requests": "write"},
    }
    (alone,) = workflow["jobs"]["comment"]["steps"]
    assert "uses" not in alone, "the job that may write runs nothing of the pull request and no action"
    assert "${{" not in alone["run"]
    actions = [step for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert len(actions) == 3
    assert [step["uses"] for step in actions if not re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])] == []
    checkouts = [step["with"] for step in actions if "checkout" in step["uses"]]
    assert [(step["path"], step["persist-credentials"]) for step in checkouts] == [("base", False), ("head", False)]


def test_what_a_job_needs_is_there(workflow: Any) -> None:
    for job in workflow["jobs"].values():
        assert job.get("needs", "measure") in workflow["jobs"]
    used = set(re.findall(r"\b(?:needs\.measure|steps\.check)\.outputs\.(\w+)", PATH.read_text()))
    assert used == set(workflow["jobs"]["measure"]["outputs"]) == {"table"}


@pytest.mark.parametrize(("slow", "code"), [("", 0), ("encoder", 1)])
def test_its_script_writes_the_table_and_fails_on_a_regression(
    workflow: Any, slow: str, code: int, tmp_path: Path
) -> None:
    (script,) = (step["run"] for step in workflow["jobs"]["measure"]["steps"] if step.get("id") == "check")
    command = tmp_path / "bin" / "bench"
    command.parent.mkdir()
    command.write_text(
        '#!/bin/sh\necho "$(basename "$3" .onnx)/raw: 1.003 [0.991, 1.015] times: fine | $2"\n'
        f'[ "$(basename "$3" .onnx)" != "{slow}" ]\n'
    )
    command.chmod(0o755)
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    environment = {**os.environ, **files, "PATH": f"{command.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, check=False)  # as GitHub does
    assert done.returncode == code
    table = (tmp_path / "table.md").read_text()
    assert table.splitlines() == [
        "| cell | this pull request beside its base |",
        "| :-- | :-- |",
        r"| encoder/raw | 1.003 [0.991, 1.015] times: fine \| base/encoder.onnx |",
        r"| decoder/raw | 1.003 [0.991, 1.015] times: fine \| base/decoder.onnx |",
    ]
    assert Path(files["GITHUB_STEP_SUMMARY"]).read_text() == table
    assert Path(files["GITHUB_OUTPUT"]).read_text() == f"table<<END\n{table}END\n"
