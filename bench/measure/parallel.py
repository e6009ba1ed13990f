"""Untimed steps that run at the same time; each step waits for child processes of its own."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TypeVar

from bench.api.errors import BenchError
from bench.measure import machine, process

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def at_once(
    step: Callable[[Item], Outcome],
    items: Iterable[Item],
    *,
    workers: int,
    done: Callable[[Item, Outcome | BenchError], None],
) -> None:
    """Run a step for each item, several steps at the same time.

    Args:
        step: called in a thread with an item; a `BenchError` that the step raises is its outcome.
        items: the items, in the order in which their steps begin.
        workers: largest number of steps at the same time.
        done: called in this thread with each item and its outcome, in the order in which the steps end.

    Raises:
        BaseException: any other exception of `step` or `done`, Ctrl-C included, after every child process was killed.
    """
    futures: dict[Future[Outcome], Item] = {}
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                futures[pool.submit(step, item)] = item
            for future in as_completed(futures):
                error = future.exception()
                done(futures[future], error if isinstance(error, BenchError) else future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(future.done() for future in futures):
                process.kill_all()  # repeatedly, because a step may have started another child meanwhile
                time.sleep(0.02)
            raise


def on_all_cores(
    step: Callable[[Item], Outcome],
    items: Iterable[Item],
    done: Callable[[Item, Outcome | BenchError], None],
    *,
    threads: Callable[[Item], int] = lambda _: 1,
) -> None:
    """Run steps at the same time, as many as have a core for each of their threads: see `at_once`.

    Args:
        step: as for `at_once`.
        items: those with fewer threads come first.
        done: as for `at_once`.
        threads: number of threads that an item's child process uses.
    """
    for count, alike in itertools.groupby(sorted(items, key=threads), key=threads):
        at_once(step, alike, workers=max(1, machine.num_cores() // count), done=done)
