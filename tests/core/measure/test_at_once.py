"""Steps side by side: every outcome arrives, and nothing outlives an interruption."""

import os
import threading
import time
import types

import pytest

from bench.api.errors import ArtifactError, ChildError
from bench.measure import process
from bench.measure.parallel import at_once
from bench.measure.process import Child


def test_each_item_comes_with_its_outcome():
    outcomes = {}

    at_once(lambda number: number**2, range(5), workers=2, done=outcomes.__setitem__)

    assert outcomes == {0: 0, 1: 1, 2: 4, 3: 9, 4: 16}


def test_steps_overlap():
    both = threading.Barrier(2, timeout=30)  # passed only when two steps wait at it together

    at_once(lambda _: both.wait(), range(2), workers=2, done=lambda *_: None)


def test_a_known_error_is_an_outcome():
    def step(number):
        if number == 1:
            raise ArtifactError("no such file")
        return number

    outcomes = {}
    at_once(step, range(3), workers=2, done=outcomes.__setitem__)

    assert isinstance(outcomes[1], ArtifactError)
    assert (outcomes[0], outcomes[2]) == (0, 2)


def test_an_unknown_error_passes_through():
    with pytest.raises(ZeroDivisionError):
        at_once(lambda number: 1 / number, [0], workers=1, done=lambda *_: None)


HANG = "import time\n\ndef hang():\n    time.sleep(600)\n"
hanging = types.ModuleType("hanging_operation")
exec(HANG, vars(hanging))


@pytest.fixture
def _hanging(tmp_path, monkeypatch):
    """The file that a child imports for `hanging.hang`."""
    (tmp_path / "hanging_operation.py").write_text(HANG)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)


@pytest.mark.usefixtures("_hanging")
def test_an_interruption_ends_every_child_and_begins_no_other():
    begun = []

    def step(number):
        if number == 0:
            while not begun:  # the other step is under way
                time.sleep(0.01)
            return
        begun.append(number)
        with Child() as child:
            child.request(hanging.hang, timeout_s=600)

    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        at_once(step, range(20), workers=2, done=interrupt)

    assert begun[0] == 1
    assert len(begun) <= 2
    assert not Child.living


@pytest.mark.usefixtures("_hanging")
def test_a_killed_child_tells_whoever_waits_for_it():
    with Child() as child:
        threading.Timer(0.2, process.kill_all).start()
        with pytest.raises(ChildError, match="SIGKILL"):
            child.request(hanging.hang, timeout_s=60)
        assert child in Child.living
    assert child not in Child.living
