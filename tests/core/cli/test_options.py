"""Options of all commands: none hides another, and those of a user's model mean the same everywhere."""

from __future__ import annotations

import collections
import itertools
import subprocess
import sys

import pytest
import typer.main
from typer.testing import CliRunner

from bench.cli.commands import app
from support.features import is_there, needs

COMMANDS = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_option_of_a_command_has_two_meanings(name: str) -> None:
    commands = [COMMANDS[name], *getattr(COMMANDS[name], "commands", {}).values()]
    for command in commands:
        counted = collections.Counter(option for parameter in command.params for option in parameter.opts)
        assert not [option for option, number in counted.items() if number > 1], command.name


@pytest.mark.parametrize(
    "name", ["run", "check", *(pytest.param(name, marks=needs(name)) for name in ("compare", "explain", "load"))]
)
def test_a_metric_and_an_output_can_be_named_where_samples_can(name: str) -> None:
    assert {"--dataset", "--metric", "--output"} <= {
        option for parameter in COMMANDS[name].params for option in parameter.opts
    }


@pytest.mark.parametrize("arguments", [["--metric", "rmse"], ["--output", "p"]])
def test_a_metric_without_targets_is_refused(arguments: list[str]) -> None:
    found = CliRunner().invoke(app, ["run", "--model", "m.onnx", *arguments])
    assert "are about the targets of a data set; name it with --dataset" in str(found.exception)


def test_help_that_nobody_reads_to_its_end_is_no_error() -> None:
    """The packages that print help leave by SystemExit where their reader has gone, as `head` has."""
    text = "from bench.cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", text, "show", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as ran:
        assert ran.stdout is not None
        ran.stdout.close()
        assert ran.stderr is not None
        assert ran.stderr.read() == ""
    assert ran.returncode == 0


GROUPS = {
    "Measure": ["run", "fleet", "load"],
    "Decide": ["pick", "best", "compare", "search"],
    "Inspect": ["show", "roofline", "list", "explain", "graph", "profile"],
    "Share": ["plot", "export", "report"],
    "Maintain": ["check", "clean", "bisect", "doctor"],
}
OF_THE_CORE = {
    *("run", "pick", "best", "show", "roofline", "list"),
    *("plot", "check", "clean"),
}
FOLDERS = {"report": "page"}
"""The folder of a command that is named otherwise."""


def test_help_begins_with_two_commands_and_lists_all_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.strip(" \u2502") for line in CliRunner().invoke(app, ["--help"]).stdout.splitlines()]
    _, first = [line for line in lines if line.startswith(("Usage:", "bench "))]
    assert first == "bench run --model model.onnx, then bench pick model"
    found: dict[str, list[str]] = {}
    for line in lines:
        words = line.strip("\u256d\u2500\u256e ").split()
        if line.startswith("\u256d"):
            found[heading := " ".join(words)] = []
        elif found and words[:1] and words[0] in COMMANDS:
            found[heading].append(words[0])
    found.pop("Options")
    features = set(itertools.chain.from_iterable(GROUPS.values())) - OF_THE_CORE
    assert found == {
        title: [name for name in names if name not in features or is_there(FOLDERS.get(name, name))]
        for title, names in GROUPS.items()
    }
    assert list(found) == list(GROUPS)
    assert {name for names in found.values() for name in names} == set(COMMANDS)
