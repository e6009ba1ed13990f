"""`bench load --plan`: for each deployment, the workers, threads and batch that hold the highest rate."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

from bench.api.cell import Cell
from bench.api.errors import ChildError
from bench.api.names import TaskName
from bench.features.load import capacity, loadgen, paired
from bench.features.load.paired import Arrivals, Member
from bench.features.load.scenarios import Demand
from bench.features.load.service import Setup
from bench.features.load.serving import Batching
from bench.features.load.sweep import USUAL_SHARE, Services, starts
from bench.measure import machine
from bench.measure.ledgers import Group
from bench.measure.subject import Subject
from bench.plugins import catalog

BATCHES = (1, 4, 16)
"""Most requests of an inference that are tried."""
KEPT_SHARE = 0.8
"""A way to serve a deployment is compared where its capacity is at least this share of the deployment's best."""


class Plan(Services):
    """What compares ways to split the cores of the machine, by the highest rates that keep a latency."""

    def measure(self, groups: Sequence[Group]) -> None:
        """Compare the ways to serve each deployment, and the deployments of a task with one another."""
        assert self._asked.bound is not None, "a plan has a bound on the latency"
        self._observer.stage("measure", sum(len(group.ledgers) for group in groups))
        subjects: dict[TaskName, list[Subject]] = {}
        for group in groups:
            for subject in {ledger.subject.key: ledger.subject for ledger in group.ledgers}.values():
                subjects.setdefault(subject.cell.task, []).append(subject)
        for of_task in subjects.values():
            self._began_s = time.monotonic()
            members = self._screened(of_task)
            if members:
                self._race(members)

    def _race(self, members: Sequence[Member]) -> None:
        load = self._asked
        baseline, *others = members
        arrivals = self._arrivals(baseline)
        if arrivals is None:
            return
        warming = arrivals.slices()[:1]
        for number in range(load.most_launches):
            if number and self._out_of_time():
                return
            result = paired.run_block(
                baseline,
                others,
                warming,
                self._limits,
                load.bounds,
                rate=None,
                bound=load.bound,
                probed=arrivals,
                starts=starts(arrivals, number),
                out_of_time=self._out_of_time,
                on_step=self._observer.cell,
            )
            others = self._keep_block(result, others)
            if not result.launches:
                return

    def _screened(self, subjects: Sequence[Subject]) -> list[Member]:
        """For each deployment, the ways to serve it that may hold the highest rate, the best way of all first."""
        deployments: dict[Cell, list[tuple[float, Member]]] = {}
        for subject in subjects:
            several = catalog.runtime(subject.cell.runtime).runs_sessions_at_once()
            for setup in setups(subject.cell.threads, machine.num_cores(), several_sessions=several):
                try:
                    with self._served(subject, setup) as (driver, service):
                        if service.setup != setup:
                            self._observer.cell(subject.cell, f"{setup}: its session answers one request at a time")
                            continue
                        rate = capacity.measure(driver, service).rate
                except ChildError as error:
                    self._keep_run(Member(subject=subject, setup=setup), loadgen.SERVER, error.reason)
                    continue
                member = Member(subject=subject, setup=setup, guess=USUAL_SHARE * rate)
                deployments.setdefault(dataclasses.replace(subject.cell, threads=1), []).append((rate, member))
                self._observer.cell(subject.cell, f"{setup}: {rate:.4g} requests/s at most")
        candidates = [
            (rate, member)
            for rated in deployments.values()
            for rate, member in rated
            if rate >= KEPT_SHARE * max(rate for rate, _ in rated)
        ]
        return [member for _, member in sorted(candidates, key=lambda pair: pair[0], reverse=True)]

    def _arrivals(self, member: Member) -> Arrivals | None:
        """Arrivals that the load generator draws for a service; None where the service fails."""
        assert member.guess is not None
        assert self._asked.latency_ns is not None
        demand = Demand(
            latency_ns=1e9 / member.guess,
            rate=member.guess,
            most_latency_ns=self._asked.latency_ns,
            duration_s=self._asked.duration_s,
        )
        try:
            with self._served(member.subject, member.setup) as (driver, service):
                run = self._run(driver, service, loadgen.SERVER, demand)
        except ChildError as error:
            self._keep_run(member, loadgen.SERVER, error.reason, demand)
            return None
        if run is None or run.gave_up is not None:
            return None
        return Arrivals.of(run.served)


def setups(threads: int, num_cores: int, *, several_sessions: bool) -> list[Setup]:
    """The ways to serve a cell of so many threads that use all cores, with each of `BATCHES`.

    Args:
        threads: threads of a session.
        num_cores: cores of the machine.
        several_sessions: whether sessions of one worker may run at the same time.
    """
    at_once = max(1, num_cores // threads)
    splits = [Setup(instances=at_once)]
    if several_sessions and at_once > 1:
        splits.append(Setup(sessions=at_once))
    return [dataclasses.replace(split, batching=Batching(most=most)) for split in splits for most in BATCHES]
