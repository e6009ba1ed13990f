"""Several steps at once: each waits for child processes of its own, and none of them is timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TypeVar

from bench.api.errors import BenchError
from bench.measure import process

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def at_once(
    step: Callable[[Item], Outcome],
    items: Iterable[Item],
    *,
    workers: int,
    done: Callable[[Item, Outcome | BenchError], None],
) -> None:
    """Take a step for each item, some of them at the same time.

    Args:
        step: runs in a thread; a `BenchError` it raises is its outcome.
        workers: most steps at a time.
        done: called in this thread with each item and its outcome, in the order in which they end.

    Raises:
        Whatever else `step`, or `done`, raises, Ctrl-C included: then every child process is killed first.
    """

    def outcome(item: Item) -> Outcome | BenchError:
        try:
            return step(item)
        except BenchError as error:
            return error

    futures: dict[Future[Outcome | BenchError], Item] = {}
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                futures[pool.submit(outcome, item)] = item
            for future in as_completed(futures):
                done(futures[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(future.done() for future in futures):
                process.kill_all()  # again and again: a step may have started another child meanwhile
                time.sleep(0.02)
            raise
