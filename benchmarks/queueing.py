"""Services whose waiting times are known: `bench load`'s client and queue against the theory of queues.

A runtime sleeps for fixed or exponential times, so a service of it is a queue of the textbooks.

- `waiting`: at 30, 60, 80 and 90 % load, the waiting time of every request beside Lindley's recursion on the recorded
  arrivals and service times, and the mean waiting time, with its 95 % interval over independent runs, beside the
  formulas of M/D/1, M/M/1 and M/D/2.
- `overhead`: at half load, the time of a request that is neither its inference nor waiting for another.
- `agree`: the median latency of a service by MLPerf's load generator, and by the replay of the arrivals that it drew.
- `pairs`: services of one runtime that take turns: copies of one service, which are to be called different in at most
  5 % of 40 comparisons, and a service that is 5 % slower, which is to be found in 9 of 10, in the 99th percentile, too.

Sources: D. V. Lindley, The theory of queues with a single server, 1952; L. Kleinrock, Queueing Systems I, 1975, 5.6;
C. D. Crommelin, Delay probability formulae, 1932, for M/D/2.

    python benchmarks/queueing.py waiting
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import scipy.stats

from bench.api.cell import Cell
from bench.features.load import loadgen, paired
from bench.features.load import turns as decisions
from bench.features.load.lines import P50, P99
from bench.features.load.paired import Arrivals, Member
from bench.features.load.scenarios import Demand
from bench.features.load.served import Served
from bench.features.load.service import Bounds, Driver, Service, Setup
from bench.measure.limits import Limits
from bench.measure.subject import Subject
from bench.pipeline import opening, verify
from bench.pipeline.flow import Verified
from bench.records.lines import Header
from bench.records.store import Record

SERVICE_S = 0.004
LONGER_S = 0.01
"""Service time where the client's time from one request to the next counts, too."""
LOADS = (0.3, 0.6, 0.8, 0.9)
WARM_SHARE = 1 / 6
"""Share of the requests that do not count in a mean: a queue that begins empty is shorter at first."""
MOST_OFF = 0.03
"""Share of the time from arrival to answer by which a waiting time may differ from Lindley's."""
LIMITS = Limits.of(step_s=None, memory_bytes=None)
RUNTIME = '''
"""Sleeps to a deadline, which is fixed or exponential."""

import ctypes
import random
import time

from bench.plugins.runtimes.null import NullRuntime

MEAN_S, IS_FIXED = {mean_s}, {is_fixed}
SPIN_S = {spin_s}
FACTORS = {factors}


class Sleeper(NullRuntime):
    """The null runtime after a sleep."""

    default_for = ()
    options = {{name: "the same work for longer" for name in FACTORS}}

    def open(self, artifact, *, task, source, provider, threads):
        plain, _, option = provider.partition("+")
        mean_s = FACTORS.get(option, 1) * MEAN_S
        session = super().open(artifact, task=task, source=source, provider=plain, threads=threads)
        run, draws = session.run, random.Random()
        ctypes.CDLL(None).prctl(29, 1, 0, 0, 0)  # wake when it is time, and not up to 50 microseconds later

        def sleeping(feeds):
            end = time.perf_counter() + (mean_s if IS_FIXED else draws.expovariate(1 / mean_s))
            outputs = run(feeds)
            time.sleep(max(0.0, end - time.perf_counter() - SPIN_S))
            while time.perf_counter() < end:
                pass
            return outputs

        session.run = sleeping
        return session
'''


@dataclasses.dataclass(frozen=True, kw_only=True)
class Queue:
    """A queue of the textbooks: Poisson arrivals, a kind of service times, some servers."""

    name: str
    runtime: str
    servers: int

    def mean_wait_s(self, load: float, service_s: float) -> float:
        """Mean waiting time by its formula."""
        if self.name == "M/M/1":
            return load / (1 - load) * service_s
        if self.name == "M/D/1":
            return load / (2 * (1 - load)) * service_s
        return crommelin_wait(self.servers, load) * service_s


QUEUES = (
    Queue(name="M/D/1", runtime="fixed", servers=1),
    Queue(name="M/M/1", runtime="exponential", servers=1),
    Queue(name="M/D/2", runtime="fixed", servers=2),
)


def crommelin_wait(servers: int, load: float) -> float:
    """Mean waiting time of M/D/c in service times: the sum over i of e^(-ia) (P1 + P2), by Crommelin's formula."""
    offered, total = servers * load, 0.0
    for i in range(1, 2000):
        mean = i * offered
        tail = scipy.stats.poisson.sf(i * servers - 1, mean)
        further = scipy.stats.poisson.sf(i * servers, mean)
        term = tail - further / load
        total += term
        if abs(term) < 1e-12:
            break
    return total


def handing_over_ns(found: Sequence[Served]) -> float:
    """The median time from one inference of a server to the next, where that request had arrived before."""
    gaps = [(one.start_ns[1:] - one.end_ns[:-1])[one.sent_ns[1:] < one.end_ns[:-1]] for one in found]
    return float(np.median(np.concatenate(gaps)))


def lindley(served: Served, added_ns: float = 0.0) -> np.ndarray:
    """Waiting times of one server by Lindley's recursion on recorded arrivals and service times, in nanoseconds.

    A request arrives when it was sent: how late the client was is no matter of the queue, and is printed beside.

    Args:
        added_ns: time that the harness adds to each service.
    """
    service = (served.end_ns - served.start_ns + added_ns).tolist()
    gaps = np.diff(served.sent_ns).tolist()
    waits = [0]
    for took, gap in zip(service, gaps, strict=False):
        waits.append(max(0, waits[-1] + took - gap))
    return np.array(waits)


@contextlib.contextmanager
def runtimes(factors: Mapping[str, float] | None = None, **mean_s: float) -> Iterator[None]:
    """Runtimes by name, on the search path of plugins; names that begin with `exp` have exponential times.

    One that begins with `busy` computes for its whole time, as an inference does, and does not sleep. An option of the
    provider multiplies the time: it is one program to the model of the measurement, as two variants on one runtime are.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "runtimes"
        place.mkdir()
        for name, mean in mean_s.items():
            text = RUNTIME.format(
                mean_s=mean,
                is_fixed=not name.startswith("exp"),
                spin_s=1.0 if name.startswith("busy") else 1e-4,
                factors=dict(factors or {}),
            )
            (place / f"{name}.py").write_text(text)
        os.environ["BENCH_PATH"] = folder
        yield


def subject(runtime: str, provider: str = "cpu") -> Subject:
    """The toy model on a runtime, verified."""
    found = verify.from_name(Cell.from_path(f"toy/null/native/raw/{runtime}/{provider}/b1t1"), LIMITS)
    if not isinstance(found, Verified):
        raise SystemExit(f"{runtime}: {found.reason}")
    return opening.subject(found)


def poisson(rng: np.random.Generator, rate: float, number: int) -> np.ndarray:
    """Arrivals of a Poisson process, in nanoseconds."""
    return np.cumsum(rng.exponential(1e9 / rate, number)).astype(np.int64)


def waiting(runs: int, requests: int, service_s: float) -> bool:
    """Print measured waiting times beside Lindley's and the formulas; False where they differ.

    The recursion knows no time of the harness nor a moment that the machine stops, and both delay every request that
    waits behind, so the longer the service times, the nearer it is. The second share is that of the recursion with the
    median time of handing over, a single figure, added to each service.
    """
    titles = ("queue", "load", "within 3 % of Lindley", "and hand-over", "hand-over", "largest difference")
    print("|", " | ".join((*titles, "client late p99", "mean wait [95 %]", "Lindley's mean", "formula")), "|")
    print("| :-- |", " | ".join(["--:"] * (len(titles) + 3)), "|")
    rng, is_good = np.random.default_rng(0), True
    with runtimes(fixed=service_s, exponential=service_s), Driver(LIMITS, Bounds()) as driver:
        for queue in QUEUES:
            with Service(subject(queue.runtime), Setup(instances=queue.servers), LIMITS) as service:
                for load in LOADS:
                    rate = load * queue.servers / service_s
                    found = [
                        driver.replay(service, poisson(rng, rate, requests), np.zeros(requests, np.int64)).served
                        for _ in range(runs)
                    ]
                    is_good &= _waiting_line(queue, load, service_s, found)
    return is_good


def _waiting_line(queue: Queue, load: float, asked_s: float, found: Sequence[Served]) -> bool:
    near, shown, ideal = math.nan, "- | - | - | -", "-"
    if queue.servers == 1:
        over_ns = handing_over_ns(found)
        off, off_added = (
            [np.abs(one.start_ns - one.sent_ns - lindley(one, added_ns)) for one in found]
            for added_ns in (0.0, over_ns)
        )
        total = [one.end_ns - one.sent_ns for one in found]
        near, with_harness = (
            float((np.concatenate([part / of for part, of in zip(each, total, strict=True)]) <= MOST_OFF).mean())
            for each in (off, off_added)
        )
        worst = float(np.concatenate(off).max()) / 1e3
        shown = f"{100 * near:.2f} % | {100 * with_harness:.2f} % | {over_ns / 1e3:.0f} us | {worst:.0f} us"
        ideal = f"{np.mean([lindley(one)[int(WARM_SHARE * len(one.due_ns)) :].mean() for one in found]) / 1e6:.3f} ms"
    counted = [(one.start_ns - one.sent_ns)[int(WARM_SHARE * len(one.due_ns)) :] for one in found]
    means = np.array([float(waits.mean()) / 1e6 for waits in counted])
    half = float(scipy.stats.t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / math.sqrt(len(means)))
    service_s = float(np.mean([(one.end_ns - one.start_ns).mean() for one in found])) / 1e9
    late = float(np.percentile(np.concatenate([one.sent_ns - one.due_ns for one in found]), 99)) / 1e3
    # What sleeps to a deadline ends a little later, so the load is that of the recorded service times.
    formula = 1e3 * queue.mean_wait_s(load * service_s / asked_s, service_s)
    print(
        f"| {queue.name} | {100 * load:.0f} % | {shown} | {late:.0f} us | {means.mean():.3f} ms "
        f"[{means.mean() - half:.3f}, {means.mean() + half:.3f}] | {ideal} | {formula:.3f} ms |",
        flush=True,
    )
    return bool(abs(means.mean() - formula) <= half) and (queue.servers > 1 or near > 0.99)


def overhead(runs: int, requests: int) -> bool:
    """Print what the harness takes of a request at half load; False where its median is above 100 microseconds.

    That of an inference that computes counts. A core that slept takes longer for whatever comes next, also for the
    harness, so the time beside inferences that sleep is printed for comparison.
    """
    rng, medians = np.random.default_rng(1), {}
    with runtimes(busy=SERVICE_S, fixed=SERVICE_S), Driver(LIMITS, Bounds()) as driver:
        for name in ("busy", "fixed"):
            with Service(subject(name), Setup(), LIMITS) as service:
                found = [
                    driver.replay(service, poisson(rng, 0.5 / SERVICE_S, requests), np.zeros(requests, np.int64)).served
                    for _ in range(runs)
                ]
            percentiles = np.percentile(np.concatenate([one.overhead_ns() for one in found]), [50, 90, 99]) / 1e3
            medians[name] = percentiles[0]
            print(f"{name}: time in the harness, of a request at 50 % load: ", end="")
            print("p50 {:.0f}, p90 {:.0f}, p99 {:.0f} us".format(*percentiles), flush=True)
    return bool(medians["busy"] <= 100)


def agree(runs: int) -> bool:
    """Print the median latency of replayed arrivals over what MLPerf's load generator says of them; 2 % may differ."""
    demand = Demand(latency_ns=1e9 * LONGER_S, rate=0.5 / LONGER_S, most_latency_ns=1e9)
    ratios = []
    with (
        runtimes(fixed=LONGER_S),
        Driver(LIMITS, Bounds()) as driver,
        Service(subject("fixed"), Setup(), LIMITS) as service,
        tempfile.TemporaryDirectory() as folder,
    ):
        for number in range(runs):
            logs = Path(folder) / str(number)
            logs.mkdir()
            settings = dataclasses.replace(demand, seed=number + 1).settings(loadgen.SERVER)
            driven = driver.drive(service, loadgen.SERVER, settings, logs, 60.0)
            replayed = driver.replay(service, Arrivals.of(driven.served).due_ns, driven.served.rows).served
            said = loadgen.summary(logs).figures["50.00 percentile latency (ns)"]
            ratios.append(float(np.median(replayed.latency_ns)) / said)
    print("p50 of the replay over that of the load generator:", ", ".join(f"{ratio:.4f}" for ratio in ratios))
    middle = float(np.median(ratios))
    print(f"median {middle:.4f}")
    return abs(middle - 1) <= 0.02


def pairs(runs: int, launches: int, slices: int, margin: float) -> bool:
    """Print how often copies of one service, and a service that is 5 % slower, are called different."""
    rng = np.random.default_rng(2)
    copies = ("copy1", "copy2", "copy3")
    called = {P50: 0, P99: 0}
    found = {P50: 0, P99: 0}
    with runtimes({**dict.fromkeys(copies, 1.0), "slower": 1.05}, fixed=SERVICE_S):
        base, *others = (subject("fixed", f"cpu{one}") for one in ("", *(f"+{name}" for name in (*copies, "slower"))))
        for _ in range(runs):
            lines: dict[str, list[object]] = {}
            for _ in range(launches):
                due = [poisson(rng, 0.7 / SERVICE_S, 200) for _ in range(slices + 1)]
                arrivals = [Arrivals(due_ns=each - each[0], rows=np.zeros(200, np.int64)) for each in due]
                members = [Member(subject=one) for one in others]
                result = paired.run_block(
                    Member(subject=base), members, arrivals, LIMITS, Bounds(), rate=0.7 / SERVICE_S
                )
                for member, line in result.launches:
                    lines.setdefault(member.subject.cell.path, []).append(line)
            records = {
                path: Record.from_lines([Header(key=path, cell=path, artifact=None), *of_path])  # type: ignore[list-item]
                for path, of_path in lines.items()
            }
            (turns,) = decisions.turns(records)
            for statistic in (P50, P99):
                for way in turns.launches:
                    verdict = turns.over_baseline(way, statistic).verdict(margin)
                    (option,) = way.cell.provider.options
                    called[statistic] += option in copies and verdict in ("faster", "slower")
                    found[statistic] += option == "slower" and verdict == "slower"
            print(json.dumps({"called": called, "found": found}), file=sys.stderr, flush=True)
    number = len(copies) * runs
    for statistic in (P50, P99):
        print(
            f"{statistic}: {called[statistic]} of {number} copies called different; "
            f"the 5 % slower one found in {found[statistic]} of {runs}"
        )
    return all(called[one] <= 0.05 * number and found[one] >= 0.9 * runs for one in called)


def main() -> int:
    """Run a check; fails where it does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=("waiting", "overhead", "agree", "pairs"))
    parser.add_argument("--runs", type=int, default=None, help="independent runs: 6, or 14 pairs")
    parser.add_argument("--requests", type=int, default=3000, help="of a run")
    parser.add_argument("--service", type=float, default=LONGER_S, help="mean service time of waiting, in seconds")
    parser.add_argument("--launches", type=int, default=3, help="of a comparison")
    parser.add_argument("--slices", type=int, default=6, help="of a launch")
    parser.add_argument("--margin", type=float, default=0.02, help="largest difference that counts as noise")
    given = parser.parse_args()
    if given.check == "pairs":
        return int(not pairs(given.runs or 14, given.launches, given.slices, given.margin))
    if given.check == "agree":
        return int(not agree(given.runs or 6))
    if given.check == "waiting":
        return int(not waiting(given.runs or 6, given.requests, given.service))
    return int(not overhead(given.runs or 6, given.requests))


if __name__ == "__main__":
    sys.exit(main())
