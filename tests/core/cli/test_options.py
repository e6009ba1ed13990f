"""Options of all commands: none hides another, and those of a user's model mean the same everywhere."""

from __future__ import annotations

import collections
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from bench.api.program import BROWSER
from bench.cli import options
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


_WITH_WORKERS = {"run", "pick", "check", "explain", "compare", "load", "search", "bisect", "blame", "up", "join"}


def test_a_browser_can_be_named_wherever_workers_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """`bench fleet run` takes the options of `bench run`."""
    commands = {**COMMANDS, **(getattr(COMMANDS.get("fleet"), "commands", {}))}
    commands["run"] = COMMANDS["run"]
    with_it = {
        name: next((each for each in command.params if "--browser" in each.opts), None)
        for name, command in commands.items()
    }
    named = {name: option for name, option in with_it.items() if option is not None}
    assert set(named) == _WITH_WORKERS & set(commands)
    with_limits = {
        name
        for name, command in commands.items()
        if any({"--timeout", "--memory"} & set(each.opts) for each in command.params)
    }
    assert with_limits <= set(named), "what limits the steps of workers starts them"
    for option in named.values():
        monkeypatch.setenv(BROWSER, "before")
        assert option.callback is not None
        assert option.process_value(None, "other/chromium") == Path("other/chromium")
        assert os.environ[BROWSER] == "other/chromium"


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
    "Maintain": ["check", "install", "clean", "bisect", "blame", "doctor"],
}
OF_THE_CORE = {
    *("run", "pick", "best", "show", "roofline", "list"),
    *("plot", "check", "install", "clean"),
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


@pytest.mark.parametrize(
    ("line", "arguments", "said"),
    [
        (
            "next: the same command with --budget 5m --launches 8",
            ["run", "--sweep", "quick", "--launches", "3", "--total", "60s"],
            "next: bench run --sweep quick --budget 5m --launches 8",
        ),
        (
            "next: the same command with --budget 5m",
            ["run", "toy/*/b1t1", "--budget=1m", "--results", "a b"],
            "next: bench run 'toy/*/b1t1' --results 'a b' --budget 5m",
        ),
        ("next: the same command with --force, at a quieter hour", ["run"], None),
        ("2 undecided: the same command with --budget 5m goes on", ["run"], None),
        ("next: bench pick toy", ["run", "toy"], None),
    ],
)
def test_the_next_command_is_whole(line: str, arguments: list[str], said: str | None) -> None:
    assert options.again(line, arguments) == (said or line)


def test_the_interpreter_is_named_as_the_shell_finds_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own, other = tmp_path / "env" / "bin", tmp_path / "system"
    for folder in (own, other):
        folder.mkdir(parents=True)
        (folder / "python").write_text("#!/bin/sh\n")
        (folder / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(own / "python"))
    monkeypatch.setenv("PATH", str(own))
    assert options.interpreter() == "python"
    monkeypatch.setenv("PATH", str(other))
    monkeypatch.chdir(tmp_path)
    assert options.interpreter() == "env/bin/python"
    monkeypatch.chdir(other)
    assert options.interpreter() == str(own / "python")
