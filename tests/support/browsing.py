"""Pages that misbehave, in a worker of their own; and the processes and folders that a browser may leave."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
from onnx import TensorProto, helper

from bench.api import TensorSpec
from bench.plugins import catalog
from bench.plugins.engines.browser.page import Page
from bench.plugins.engines.browser.runtime import BrowserRuntime
from support import small_models

HUGE = 170_000_000
"""Rows of three float32 numbers, which take 2 GB: WebAssembly has no room for a second such tensor."""


PLAN = {"warm_ns": 0, "min_cold": 1, "target_ns": 5_000_000, "min_runs": 3, "max_runs": 50}
"""Of a short burst."""


_OURS = "INFEROMETER_TESTED_BY"
os.environ[_OURS] = str(os.getpid())  # by which the browsers of tests in other processes are told from ours


class OneTask(small_models.SmallTask):
    inputs = (TensorSpec(name="x", dtype="float32", shape=("batch", 3)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 3)),)


@functools.cache  # tests before may have had the catalog forget it, and another class would have pages of its own
def runtime(name: str = "ort_web") -> BrowserRuntime:
    found = catalog.runtime(name)
    assert isinstance(found, BrowserRuntime)
    return found


def model(path: Path, *nodes: onnx.NodeProto, domain: str = "") -> Path:
    """An ONNX file from `x` to `y`."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("x", "y")]
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    graph = helper.make_graph(nodes or [helper.make_node("Neg", ["x"], ["y"])], "small", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def huge(path: Path) -> Path:
    """A small file whose inference needs two tensors of 2 GB at once."""
    shape = helper.make_node("Constant", [], ["shape"], value_ints=[HUGE, 3])
    wide = helper.make_node("Expand", ["x", "shape"], ["wide"])
    other = helper.make_node("Neg", ["wide"], ["other"])
    product = helper.make_node("Mul", ["wide", "other"], ["product"])
    least = helper.make_node("ReduceMin", ["product"], ["least"], keepdims=0)
    return model(path, shape, wide, other, product, least, helper.make_node("Add", ["x", "least"], ["y"]))


def opened(path: Path, name: str = "ort_web") -> Any:
    task = small_models.make_task(OneTask)
    return runtime(name).open(path, task=task, source="onnx", provider="cpu", threads=1)


def run(*, path: str) -> dict[str, Any]:
    """In a worker: one inference."""
    (output,) = opened(Path(path)).run({"x": np.ones((1, 3), np.float32)})
    return {"outputs": output.ravel().tolist()}


def misbehave(*, how: str, path: str) -> dict[str, Any]:
    """In a worker: a page that computes for ever, or whose process ends, after a first inference."""
    with opened(Path(path)) as session:  # as those who verify have it
        session.run({"x": np.ones((1, 3), np.float32)})
        page = type(runtime()).running
        assert isinstance(page, Page)
        if how == "crash":
            page._browser.on_page("Page.navigate", url="chrome://crash")
        elif how == "kill":
            os.kill(page.pid, 9)
        elif how == "end":
            os.kill(page._browser.pid, 9)
        else:
            page._browser.evaluate("(() => { for (;;); })()")
        return run(path=path)


def reach(*, address: str, path: str) -> dict[str, Any]:
    """In a worker: what a page is told that asks for an address."""
    opened(Path(path))
    page = type(runtime()).running
    assert isinstance(page, Page)
    code = f"fetch({address!r}, {{mode: 'no-cors'}}).then(() => 'reached', (error) => String(error))"
    return {"answer": page._browser.evaluate(code)}


def browsers() -> set[int]:
    """The groups of the living processes of this process's browsers: a browser has one, with all that it starts.

    Some of its processes write their arguments over their variables: others of the group tell whose it is.
    """
    testers: dict[int, set[str]] = {}
    for process in psutil.process_iter(["status", "cmdline"]):
        is_alive, command = process.info["status"] != psutil.STATUS_ZOMBIE, process.info["cmdline"] or [""]
        if is_alive and "chrom" in Path(command[0].partition(" ")[0]).name:
            with contextlib.suppress(ProcessLookupError, psutil.Error):
                tester = process.environ().get(_OURS)
                testers.setdefault(os.getpgid(process.pid), set()).update([tester] if tester else [])
    return {group for group, names in testers.items() if not names or os.environ[_OURS] in names}


def left_since(before: set[int]) -> set[int]:
    """The groups that were not there before, once they have had ten seconds to end: crash handlers end last."""
    end = time.monotonic() + 10
    while (left := browsers() - before) and time.monotonic() < end:
        time.sleep(0.05)
    return left
