"""What GitHub does with the file of a composite action: fills in its inputs and runs its steps in bash, in turn.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/metadata-syntax
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")
SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
"""How a step with `shell: bash` is run, before the file with its script."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ran:
    """What a run of an action left.

    Attributes:
        code: exit code of the step that failed, or 0.
        outputs: the action's outputs.
        summary: what its steps added to the summary of the job.
        log: what they printed.
    """

    code: int
    outputs: dict[str, str]
    summary: str
    log: str


def filled(text: str, context: Mapping[str, str]) -> str:
    """A text with the value of each expression, which is a name of the context; an unknown one is a KeyError."""
    return EXPRESSION.sub(lambda found: context[found[1]], text)


def run_action(
    action: Path,
    inputs: Mapping[str, str],
    *,
    workspace: Path,
    environment: Mapping[str, str],
    context: Mapping[str, str] | None = None,
) -> Ran:
    """Run the steps of an action until one fails.

    Args:
        action: folder of its `action.yml`.
        inputs: values of its inputs.
        workspace: the working folder; what GitHub keeps for the job is in a folder `runner` beside it.
        environment: more environment variables.
        context: values of other expressions, such as `github.token`.
    """
    told = yaml.safe_load((action / "action.yml").read_text(encoding="utf-8"))
    known = told.get("inputs", {})
    assert set(inputs) <= set(known), "GitHub warns of other inputs"
    assert {name for name, one in known.items() if one.get("required")} <= set(inputs)
    values = {f"inputs.{name}": str(inputs.get(name, one.get("default", ""))) for name, one in known.items()}
    values |= context or {}
    runner = workspace.parent / "runner"
    runner.mkdir(exist_ok=True)
    files = {name: runner / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    summary, log, code = "", "", 0
    for number, step in enumerate(told["runs"]["steps"]):
        assert step["shell"] == "bash"
        script = runner / f"{number}.sh"
        script.write_text(step["run"], encoding="utf-8")
        for file in files.values():
            file.write_text("")
        given = {name: filled(str(text), values) for name, text in step.get("env", {}).items()}
        own = {name: str(file) for name, file in files.items()}
        own |= {"GITHUB_ACTION_PATH": str(action), "RUNNER_TEMP": str(runner)}
        done = subprocess.run(
            [*SHELL, str(script)],
            cwd=workspace,
            env={**os.environ, **environment, **own, **given},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
            check=False,
        )
        code, log = done.returncode, log + done.stdout
        summary += files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
        written = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text(encoding="utf-8").splitlines())
        values |= {f"steps.{step.get('id')}.outputs.{name}": text for name, text in written.items()}
        if code:
            break
    outputs = {name: _output(one["value"], values) for name, one in told.get("outputs", {}).items()}
    return Ran(code=code, outputs=outputs, summary=summary, log=log)


def _output(text: str, values: Mapping[str, str]) -> str:
    """An output of the action, which is set when a step has failed, too, and empty where the step wrote none."""
    steps: dict[str, Any] = {found[1]: "" for found in EXPRESSION.finditer(text) if found[1].startswith("steps.")}
    return filled(text, {**steps, **values})
