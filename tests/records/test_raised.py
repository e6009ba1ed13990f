"""Where code of a plugin raised an exception, told from the traceback that a child process sends."""

from __future__ import annotations

import runpy
import traceback
from pathlib import Path

import pytest

from bench.api.errors import ArtifactError, ChildError
from bench.records import raised
from bench.records.lines import Failure

LOG = """
Traceback (most recent call last):
  File "/elsewhere/logged.py", line 99, in log
ValueError: of the log
"""
PLUGIN = """
import json
from bench.api.errors import InputError


def ends_here():
    raise ValueError("two\\n  lines")


def ends_in_a_package():
    json.loads("{")


def explains_itself():
    raise InputError("ValueError: say --dim")


def from_another():
    try:
        ends_here()
    except ValueError as error:
        raise ValueError("again") from error
"""


def failed(folder: Path, function: str, *, kind: str = "error") -> ChildError:
    """The error of a child process that called a function of a plugin's file, with a log after the traceback."""
    (folder / "mine.py").write_text(PLUGIN)
    try:
        runpy.run_path(str(folder / "mine.py"))[function]()
    except Exception as error:
        name = "" if function == "explains_itself" else f"{type(error).__name__}: "
        return ChildError(kind, f"{name}{error}", detail=traceback.format_exc() + LOG)
    raise AssertionError(function)


@pytest.mark.parametrize(
    ("function", "line"),
    [("ends_here", 7), ("ends_in_a_package", 11), ("from_another", 22), ("explains_itself", None)],
)
def test_the_last_line_of_the_plugin_is_named(function: str, line: int | None, tmp_path: Path) -> None:
    assert raised.place(failed(tmp_path, function)) == (line and f"mine.py, line {line}")


@pytest.mark.parametrize("folder", ["site-packages", "checkout"])
def test_errors_of_this_package_have_no_such_line_wherever_it_lies(folder: str, tmp_path: Path) -> None:
    error = failed(tmp_path, "ends_here")
    frames = [line for line in error.detail.splitlines(keepends=True) if "test_raised" not in line]
    told = "".join(frames).replace(str(tmp_path / "mine.py"), f"/remote/{folder}/bench/api/errors.py")
    assert raised.place(ChildError("error", error.reason, detail=told)) is None


def test_a_death_has_no_such_line(tmp_path: Path) -> None:
    assert raised.place(failed(tmp_path, "ends_here", kind="exit")) is None


def test_the_reason_of_a_row_has_it_behind_the_message(tmp_path: Path) -> None:
    child = failed(tmp_path, "from_another")
    error = ArtifactError("prune: ValueError: again")
    error.__cause__ = child
    found = Failure.of("prepare", error)
    assert (found.reason, found.detail) == ("prune: ValueError: again (mine.py, line 22)", child.detail)
