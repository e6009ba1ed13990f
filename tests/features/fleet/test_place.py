"""The machines of a fleet as the place of a sweep, where they die, are late, or take no part; no Ray runs here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.features.fleet import cluster, command, place, work
from bench.features.fleet.facts import Facts
from bench.features.fleet.place import FleetError, FleetPlace, Machine
from bench.features.fleet.portable import Portable
from bench.records.lines import Failure
from support import deferred

ray = deferred.importorskip("ray")

CELLS = [Cell.from_path(f"toy/null/native/raw/null/cpu/b{batch}t1") for batch in (1, 2, 4)]


def machine(name: str, *, kind: str = "kind", **packages: str) -> Machine:
    facts = Facts(
        kind=kind, machine={}, code="code", packages=packages, runtimes=("null/cpu",), memory_bytes=2**30, host=name
    )
    return Machine(node=f"node-{name}", name=name, lease=cluster.LEASE, facts=facts)


class Cluster:
    """Machines whose steps are functions of the test, by the name of the machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: dict[str, Callable[..., Iterator[Any]]]) -> None:
        self.dead: set[str] = set()
        self.said: list[str] = []
        self.steps = steps
        self.place = FleetPlace([machine(name) for name in steps], self._living, self.said.append)
        monkeypatch.setattr(place, "_stream", self._stream)

    def _living(self) -> frozenset[str]:
        return frozenset(f"node-{name}" for name in self.steps if name not in self.dead)

    def _stream(self, function: Any, where: Machine, *arguments: Any) -> Iterator[Any]:
        yield from self.steps[where.name](*arguments)


def died() -> Exception:
    return ray.exceptions.NodeDiedError("its node died")


def begun(cell: Cell) -> Any:
    return SimpleNamespace(cell=cell, outcome=Failure(stage="skip", reason="as the test says"))


def test_what_a_machine_prepared_before_it_died_is_not_prepared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[Cell]] = []

    def dies(cells: Sequence[Cell], *_: Any) -> Iterator[Any]:
        asked.append(list(cells))
        yield begun(cells[0])
        there.dead.add("one")
        raise died()

    def works(cells: Sequence[Cell], *_: Any) -> Iterator[Any]:
        asked.append(list(cells))
        yield from map(begun, cells)

    there = Cluster(monkeypatch, {"one": dies, "two": works})
    told: list[Cell] = []
    limits: Any = None
    there.place.prepare(CELLS, limits, lambda each: told.append(each.cell))

    assert asked == [CELLS, CELLS[1:]]
    assert told == CELLS


def test_what_a_machine_verified_before_it_died_is_not_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    values: list[Any] = [SimpleNamespace(key=str(number)) for number in range(3)]
    failure = Failure(stage="verify", reason="as the test says")
    asked: list[list[str]] = []

    def dies(given: Sequence[Any], *_: Any) -> Iterator[Any]:
        asked.append([value.key for value in given])
        yield list(given[:2]), failure
        there.dead.add("one")
        raise died()

    def works(given: Sequence[Any], *_: Any) -> Iterator[Any]:
        asked.append([value.key for value in given])
        yield list(given), failure

    there = Cluster(monkeypatch, {"one": dies, "two": works})
    monkeypatch.setattr(place, "remote", lambda *_: SimpleNamespace(remote=lambda path: path))
    told: list[str] = []
    limits: Any = None
    there.place.verify(values, {}, limits, None, lambda each, _: told.extend(value.key for value in each))

    assert asked == [["0", "1", "2"], ["2"]]
    assert told == ["0", "1", "2"]


def test_each_wave_of_a_sweep_has_its_portable_files() -> None:
    files = Portable("first")
    files.send([("key", "name", "file")])  # type: ignore[list-item]
    coming: Future[Any] = Future()
    threading.Thread(target=lambda: coming.set_result([files.come(1), files.come(2)]), daemon=True).start()
    assert files.come(0) == [("key", "name", "file")]
    files.send([("other", "name", "file")])  # type: ignore[list-item]
    files.end()
    assert coming.result(timeout=10) == [[("other", "name", "file")], []]


def test_a_step_that_no_machine_survives_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: Any) -> Iterator[Any]:
        yield from ()
        raise died()

    there = Cluster(monkeypatch, {"one": dies, "two": dies})
    limits: Any = None
    with pytest.raises(FleetError, match="a step was lost with its machine 5 times"):
        there.place.prepare(CELLS, limits, lambda _: None)


def test_an_error_of_the_step_itself_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Iterator[Any]:
        yield from ()
        raise InputError("wrong")

    there = Cluster(monkeypatch, {"one": fails, "two": fails})
    limits: Any = None
    with pytest.raises(InputError, match="wrong"):
        there.place.prepare(CELLS, limits, lambda _: None)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (lambda: ray.exceptions.GetTimeoutError("late"), "it does not answer in 300 s"),
        (lambda: work.UnfitError("No space left on device (cache)"), "No space left on device (cache)"),
        (lambda: ray.exceptions.OutOfDiskError("Ray's own disk is full"), "Ray's own disk is full"),
    ],
)
def test_a_machine_that_is_late_or_full_takes_no_part_any_more(
    monkeypatch: pytest.MonkeyPatch, error: Callable[[], Exception], why: str
) -> None:
    def works(cells: Sequence[Cell], *_: Any) -> Iterator[Any]:
        yield from map(begun, cells)

    def cannot(*_: Any) -> Iterator[Any]:
        yield from ()
        raise error()

    there = Cluster(monkeypatch, {"one": cannot, "two": works})
    limits: Any = None
    there.place.prepare(CELLS, limits, lambda _: None)

    assert [one.name for one in there.place.machines()] == ["two"]
    assert len(there.said) == 1
    assert there.said[0].startswith(f"one takes no part any more: {why}")


def test_a_block_of_a_machine_that_dies_goes_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Cluster(monkeypatch, {"one": iter, "two": iter})
    blocks = there.place.blocks()
    sent: list[str] = []

    def task(where: Machine) -> Any:
        sent.append(where.name)
        found: Future[str] = Future()
        if len(sent) == 1:
            there.dead.add(where.name)
            found.set_exception(died())
        else:
            found.set_result("done")
        return SimpleNamespace(future=lambda: found)

    assert blocks.send(task, str.upper).result() == "DONE"
    assert sorted(sent) == ["one", "two"]

    def wrong(_: str) -> str:  # no error of a machine, so nothing is sent again
        raise InputError("wrong")

    with pytest.raises(InputError, match="wrong"):
        blocks.send(task, wrong).result()
    assert len(sent) == 3


def test_blocks_go_to_machines_that_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Cluster(monkeypatch, {"one": iter, "two": iter, "three": iter})
    blocks = there.place.blocks()
    sent: list[str] = []
    running: list[Future[str]] = []

    def task(where: Machine) -> Any:
        sent.append(where.name)
        running.append(Future())
        return SimpleNamespace(future=lambda: running[-1])

    for _ in range(3):
        blocks.send(task, str)
    assert sorted(sent) == ["one", "three", "two"]
    running[1].set_result("")
    blocks.send(task, str)
    assert sent[3] == sent[1]


def test_machines_of_a_kind_with_other_packages_take_no_part() -> None:
    """Of another kind than this machine's, the packages of most machines count."""
    me = machine("me", numpy="2").facts
    others = [machine(name, kind="other", numpy=version) for name, version in (("a", "1"), ("b", "3"), ("c", "3"))]
    kept, refused = cluster._alike([machine("one", numpy="2"), machine("two"), *others], me, [])

    assert [one.name for one in kept] == ["one", "b", "c"]
    assert [(one.name, one.reason) for one in refused] == [
        ("two", "numpy none there, 2 here"),
        ("a", "numpy 1 there, 3 here"),
    ]


@pytest.mark.parametrize("version", ["2.54.0", "2.51.1", "2.9.0"])
def test_a_version_of_ray_whose_machines_share_a_folder_is_refused(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: version)
    with pytest.raises(InputError, match=f"needs Ray 2.55 or later: {version} gives machines no folder of their own"):
        command._needs_ray()


def test_a_missing_ray_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"not installed \(pip install 'inferometer\[fleet\]'\)"):
        command._needs_ray()
