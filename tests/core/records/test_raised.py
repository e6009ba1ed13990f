"""Where code of a plugin raised an exception, told from the traceback that a child process sends."""

from __future__ import annotations

import runpy
import traceback
from pathlib import Path

import pytest

from bench.api.errors import ArtifactError, ChildError
from bench.records import error_location
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
        told = traceback.TracebackException.from_exception(error)
        told.stack = traceback.StackSummary.from_list([one for one in told.stack if one.filename != __file__])
        return ChildError(kind, f"{name}{error}", detail="".join(told.format()) + LOG)
    raise AssertionError(function)


@pytest.mark.parametrize(
    ("function", "place"),
    [("ends_here", "mine.py, line 7"), ("from_another", "mine.py, line 22"), ("explains_itself", None)],
)
def test_the_last_line_of_the_plugin_is_named(function: str, place: str | None, tmp_path: Path) -> None:
    assert error_location.place(failed(tmp_path, function)) == place


PACKAGES = """Traceback (most recent call last):
  File "/run/bench/measure/session.py", line 65, in do
    result = function(**arguments)
  File "/home/me/runtimes/mine.py", line 38, in run
    return helped(self._model(feeds))
  File "/home/me/runtimes/_helped.py", line 7, in helped
    return model(feeds)
  File "{folder}/engine/model.py", line 90, in __call__
    return self.hook(feeds)
  File "{folder}/engine/movement.py", line 183, in reshape
    raise RuntimeError("size mismatch")
RuntimeError: size mismatch

log
"""


@pytest.mark.parametrize("folder", ["/home/me/packages", "/venv/lib/python3.11/site-packages", "/home/me"])
def test_the_line_of_the_package_follows_wherever_it_is_installed(folder: str) -> None:
    error = ChildError("error", "RuntimeError: size mismatch", detail=PACKAGES.format(folder=folder))
    said = "RuntimeError: size mismatch (_helped.py, line 7, in movement.py, line 183)"
    assert Failure.of("verify", error).reason == said


def test_a_standard_module_is_a_package(tmp_path: Path) -> None:
    assert str(error_location.place(failed(tmp_path, "ends_in_a_package"))).startswith(
        "mine.py, line 11, in decoder.py, line "
    )


STACK = """engine: begin
Stack (most recent call first):
  File "/venv/lib/python3.11/site-packages/engine/jit.py", line 200 in replay
  File "/home/me/runtimes/mine.py", line 38 in _infer
  File "/home/me/runtimes/mine.py", line 30 in run
  File "/run/bench/pipeline/output_checks.py", line 38 in outputs_of
  File "<frozen runpy>", line 88 in _run_code
"""


@pytest.mark.parametrize("begin", [0, 20])
def test_a_timeout_names_the_method_that_did_not_return(begin: int) -> None:
    """Also where the beginning of the stack is cut off."""
    error = ChildError("timeout", "no answer within 45 s", detail=STACK[begin:])
    said = "no answer within 45 s (in run: mine.py, line 38, in jit.py, line 200)"
    assert Failure.of("verify", error).reason == said


@pytest.mark.parametrize("detail", ["", "engine: begin", LOG])
def test_a_timeout_without_a_stack_has_no_place(detail: str) -> None:
    error = ChildError("timeout", "no answer within 45 s", detail=detail)
    assert Failure.of("verify", error).reason == "no answer within 45 s"


@pytest.mark.parametrize("folder", ["site-packages", "checkout"])
def test_errors_of_this_package_have_no_such_line_wherever_it_lies(folder: str, tmp_path: Path) -> None:
    error = failed(tmp_path, "ends_here")
    frames = [line for line in error.detail.splitlines(keepends=True) if "test_raised" not in line]
    told = "".join(frames).replace(str(tmp_path / "mine.py"), f"/remote/{folder}/bench/api/errors.py")
    assert error_location.place(ChildError("error", error.reason, detail=told)) is None


def test_a_death_has_no_such_line(tmp_path: Path) -> None:
    assert error_location.place(failed(tmp_path, "ends_here", kind="exit")) is None


def test_the_reason_of_a_row_has_it_behind_the_message(tmp_path: Path) -> None:
    child = failed(tmp_path, "from_another")
    error = ArtifactError("prune: ValueError: again")
    error.__cause__ = child
    found = Failure.of("prepare", error)
    assert (found.reason, found.detail) == ("prune: ValueError: again (mine.py, line 22)", child.detail)
