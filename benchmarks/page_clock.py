"""The clock of a page: against the worker's, against a page without this project, and whether launches leave anything.

Three parts, each left out with 0:

- bursts: how much longer the worker sees a burst last than the page does, over many bursts; never shorter.
- pairs: the same inference timed by a page of 30 lines that knows nothing of this project, in turns with ours: the
  interval of the ratio must lie within 0.98 to 1.02.
- launches: browsers started and closed one after the other, each with one inference: none hangs or leaves a process.

A launch has its own layout of memory, which shifts all its times, a few by much: the pairs are of many launches of both
pages, and the ratio is the median of the launches' medians, with the order statistics that hold it with 95 %.
With `--keep FILE`, what was measured is stored on the way, and the next run goes on there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import instrument
import numpy as np
import psutil
from scipy.stats import binom

from bench.api import npm
from bench.api.cell import Cell
from bench.measure.limits import Limits
from bench.pipeline import feeding, prepare
from bench.plugins import catalog
from bench.plugins.engines.browser.browser import Browser
from bench.plugins.engines.browser.page import Page
from bench.plugins.engines.browser.runtime import BrowserRuntime
from bench.plugins.engines.browser.server import Server

CELL = Cell.from_path("crnn/torch/torch_onnx/raw/ort_web/cpu/b1t1")
PLAN = {"warm_ns": 0, "min_cold": 1, "target_ns": 10_000_000, "min_runs": 1, "max_runs": 100}
MOST = 0.02
HANG_S = 120
EVERY = {"bursts": 100, "pairs": 10, "launches": 20}
"""So many are measured before they are stored: of pairs, those of one launch of both pages."""
BARE = """\
<!doctype html>
<script type="module">
import * as ort from './packages/onnxruntime-web/dist/ort.wasm.min.mjs';
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = new URL('packages/onnxruntime-web/dist/', location).href;
const session = await ort.InferenceSession.create('model', { executionProviders: ['wasm'] });
const arrays = { float32: Float32Array, int64: BigInt64Array, bool: Uint8Array };
const values = {};
for (const { name, shape, type } of await (await fetch('inputs')).json()) {
  values[name] = [type, new arrays[type](await (await fetch(name)).arrayBuffer()), shape];
}
globalThis.times = async (number) => {
  const times = [];
  for (let run = 0; run < number; run++) {
    const begin = performance.now();
    const feeds = {};
    for (const name in values) feeds[name] = new ort.Tensor(...values[name]);
    const outputs = await session.run(feeds);
    for (const output of Object.values(outputs)) output.data;
    times.push(performance.now() - begin);
  }
  return times;
};
globalThis.ready = true;
</script>
"""


def main() -> None:
    """Print the figures of each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bursts", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--launches", type=int, default=200)
    parser.add_argument("--keep", type=Path, help="JSON file to go on with")
    arguments = parser.parse_args()
    known: dict[str, Any] = {}
    if arguments.keep and arguments.keep.exists():
        known = json.loads(arguments.keep.read_text())
    failures: list[str] = []
    for name, part in (("bursts", bursts), ("pairs", pairs), ("launches", launches)):
        measured = known.setdefault(name, [])
        while (left := getattr(arguments, name) - len(measured)) > 0:
            measured += part(min(left, EVERY[name]))
            if arguments.keep:
                arguments.keep.write_text(json.dumps(known))
    if known["bursts"]:
        failures += of_bursts(known["bursts"])
    if known["pairs"]:
        failures += of_pairs(known["pairs"])
    if known["launches"]:
        failures += of_launches(known["launches"])
    instrument.finish(failures)


def opened() -> tuple[BrowserRuntime, Path, dict[str, np.ndarray]]:
    """The runtime, the artifact and one request."""
    runtime, task, limits = catalog.runtime(CELL.runtime), catalog.task(CELL.task), Limits()
    assert isinstance(runtime, BrowserRuntime)
    artifact = prepare.artifact_of(CELL, limits).path
    with np.load(prepare.inputs_of(task, limits)) as file:
        feeds = feeding.timed(task, {name: file[name] for name in file.files}, 1)[0]
    return runtime, artifact, dict(feeds)


@contextlib.contextmanager
def session() -> Iterator[tuple[Any, Page, dict[str, np.ndarray]]]:
    """An artifact that is open in a page of its own, warm."""
    runtime, artifact, feeds = opened()
    how: dict[str, Any] = {"source": CELL.source, "provider": "cpu", "threads": 1}
    own = runtime.open(artifact, task=catalog.task(CELL.task), **how)
    page = type(runtime).running
    assert isinstance(page, Page)
    try:
        own.run(feeds)
        own.burst(feeds, PLAN)
        page._late_ns.clear()
        yield own, page, feeds
    finally:
        page.close()
        type(runtime).running = None


def bursts(number: int) -> list[int]:
    """By how many nanoseconds the worker saw each burst last longer than the page did."""
    with session() as (own, page, feeds):
        for _ in range(number):
            own.burst(feeds, PLAN)
        return list(page._late_ns)


def pairs(number: int) -> list[float]:
    """Our median over that of the bare page, in each pair; which comes first takes turns."""
    with session() as (own, _, feeds), tempfile.TemporaryDirectory() as folder:
        artifact = opened()[1]
        inputs = [{"name": name, "shape": value.shape, "type": str(value.dtype)} for name, value in feeds.items()]
        files = {"bare.html": BARE.encode(), "inputs": json.dumps(inputs).encode()}
        files |= {name: value.tobytes() for name, value in feeds.items()}
        for each, content in files.items():
            Path(folder, each).write_bytes(content)
        server = Server({"": Path(folder), "packages": npm.folder() / "node_modules"})
        server.files["model"] = artifact
        browser = Browser(catalog.runtime(CELL.runtime).command())  # type: ignore[attr-defined]
        try:
            browser.open(server.address + "bare.html")
            while not browser.evaluate("globalThis.ready === true"):
                time.sleep(0.05)
            browser.evaluate("times(3)")
            plan = {**PLAN, "target_ns": 0, "min_runs": 3, "max_runs": 3}
            ratios = []
            for turn in range(number):
                sides = {"ours": lambda: own.burst(feeds, plan)[1], "bare": lambda: browser.evaluate("times(4)")[1:]}
                order = list(sides) if turn % 2 else list(reversed(sides))
                took = {side: statistics.median(sides[side]()) for side in order}
                ratios.append(took["ours"] / 1e6 / took["bare"])
            return ratios
        finally:
            browser.close()
            server.close()


def launches(number: int) -> list[dict[str, float]]:
    """Of each launch: seconds, and the browsers' processes and temporary folders that it left."""
    done = []
    signal.signal(signal.SIGALRM, hung)
    for _ in range(number):
        before, began_s = processes() | folders(), time.monotonic()
        signal.alarm(HANG_S)
        with session():
            pass
        signal.alarm(0)
        took_s = time.monotonic() - began_s
        while (left := (processes() | folders()) - before) and time.monotonic() - began_s - took_s < 10:
            time.sleep(0.05)
        done.append({"seconds": took_s, "left": len(left)})
    return done


def hung(*_: object) -> None:
    """End a launch that hangs with an error, so that its browser is closed."""
    raise TimeoutError(f"a launch took more than {HANG_S} s")


def folders() -> set[int | Path]:
    """The temporary folders of browsers."""
    return {path for name in ("browser-*", "*hrom*.??????") for path in Path(tempfile.gettempdir()).glob(name)}


def processes() -> set[int | Path]:
    """The living processes of browsers on this machine: those that others start meanwhile count as left."""
    living: set[int | Path] = set()
    for process in psutil.process_iter(["status", "cmdline"]):
        command = process.info["cmdline"] or [""]
        if process.info["status"] != psutil.STATUS_ZOMBIE and "chrom" in Path(command[0].partition(" ")[0]).name:
            living.add(process.pid)
    return living


def of_bursts(late_ns: list[int]) -> list[str]:
    """Print how far the clocks are apart; what is wrong with it."""
    ordered = sorted(late_ns)
    middle, high = ordered[len(ordered) // 2], ordered[int(0.95 * (len(ordered) - 1))]
    print(f"{len(late_ns)} bursts: the worker sees them end {middle / 1e6:.3f} ms later (median), 95 % within "
          f"{high / 1e6:.3f} ms, {ordered[0] / 1e6:.3f} to {ordered[-1] / 1e6:.3f} ms")  # fmt: skip
    return ["a burst was longer by the page's clock than by the worker's"] if ordered[0] < 0 else []


def of_pairs(ratios: list[float]) -> list[str]:
    """Print the ratio with its interval of 95 %; what is wrong with it."""
    logs = [math.log(ratio) for ratio in ratios]
    own = sorted(statistics.median(logs[at : at + EVERY["pairs"]]) for at in range(0, len(logs), EVERY["pairs"]))
    rank = int(binom.ppf(0.025, len(own), 0.5))  # of the order statistics that hold the median with 95 % or more
    middle, low, high = map(math.exp, (statistics.median(own), own[max(rank - 1, 0)], own[min(-rank, -1)]))
    print(f"{len(ratios)} pairs of {len(own)} launches: ours over a bare page "
          f"{middle:.4f} [{low:.4f}, {high:.4f}]")  # fmt: skip
    return [] if low >= 1 - MOST and high <= 1 + MOST else [f"the ratio is not within 1 +- {MOST}"]


def of_launches(done: list[dict[str, float]]) -> list[str]:
    """Print how long launches took and what they left; what is wrong with it."""
    left, seconds = sum(each["left"] for each in done), sorted(each["seconds"] for each in done)
    print(f"{len(done)} launches: {seconds[len(seconds) // 2]:.2f} s (median), at most {seconds[-1]:.2f} s; "
          f"{left:g} processes or folders left")  # fmt: skip
    return ["launches left processes or folders of browsers"] if left else []


if __name__ == "__main__":
    main()
