"""The driver of a fleet: each kind of machine runs the whole of a sweep, all kinds at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from bench.api.cell import Cell
from bench.features.fleet import cluster
from bench.features.fleet.place import FleetError, FleetPlace, Machine
from bench.features.fleet.portable import Portable
from bench.pipeline.sweep import Sweep
from bench.pipeline.sweep_options import Observer, Options
from bench.records.store import Store


def by_kind(machines: Sequence[Machine]) -> Mapping[str, list[Machine]]:
    """Machines by their kind, in the order of the kinds' names."""
    return {
        kind: [machine for machine in machines if machine.facts.kind == kind]
        for kind in sorted({machine.facts.kind for machine in machines})
    }


def run(
    address: str,
    machines: Sequence[Machine],
    cells: Sequence[Cell],
    options: Options,
    store: Callable[[str], Store],
    observer: Callable[[str], Observer],
    say: Callable[[str], None],
) -> dict[str, Sweep]:
    """Run a sweep on each kind of machine, and store what comes of it as soon as it comes.

    Args:
        address: the head of the fleet, which is watched.
        machines: the machines that take part.
        cells: the cells.
        options: the settings of the sweeps.
        store: gives the store of a kind.
        observer: gives the observer of the sweep of a kind, which is told in a thread of its own.
        say: tells a person of a machine that can no longer take part.

    Returns:
        By kind, the sweep, which tells what it left out.

    Raises:
        FleetError: the head no longer answers, or a kind has no machine left; all finished results are kept.
        StoreError: results cannot be written; likewise.
    """
    lost: Future[None] = Future()
    cluster.watch(address, lambda: lost.set_result(None))
    kinds = by_kind(machines)
    portable = Portable(first=next(iter(kinds))) if len(kinds) > 1 else None
    waiting: set[Future[None]] = {lost}
    sweeps: dict[str, Sweep] = {}
    for kind, members in kinds.items():
        place = FleetPlace(members, cluster.living, say, portable)
        sweeps[kind] = Sweep(store(kind), options, observer(kind), place)
        waiting.add(_begun(sweeps[kind], cells, place.end))
    errors: list[BaseException] = []
    while waiting != {lost}:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        if lost in done:
            raise FleetError(
                f"the head of the fleet at {address} is gone", fix="the same command goes on once it is back"
            )
        errors += [error for future in done if (error := future.exception()) is not None]
    if errors:
        raise errors[0]
    return sweeps


def _begun(sweep: Sweep, cells: Sequence[Cell], ended: Callable[[], None]) -> Future[None]:
    """Run a sweep in a thread that does not keep the process alive.

    Args:
        sweep: the sweep.
        cells: its cells.
        ended: called when it ends, with an error or without.
    """
    future: Future[None] = Future()

    def go() -> None:
        try:
            try:
                sweep.run(cells)
            finally:
                ended()
        except BaseException as error:  # raised again where it is waited for
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=go, daemon=True).start()
    return future
