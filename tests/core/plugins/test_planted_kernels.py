"""Twelve wrong kernels and layouts, planted in a copy of onnxruntime-web: the judgement of the outputs finds each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bench.api import Arrays, Samples, TensorSpec, npm
from bench.pipeline import feeding, quality
from bench.plugins.engines.browser.page import Page
from bench.plugins.engines.browser.runtime import BrowserSession
from support import browsers, browsing, small_models

SIZE, BATCH, NUM_SAMPLES = 4, 3, 12
WRAPPER = """
import * as real from './ort.real.mjs';
export const Tensor = real.Tensor;
export const env = real.env;
const faults = {FAULTS};
let last = null;
globalThis.fault = null;
export const InferenceSession = {
  async create(...how) {
    const session = await real.InferenceSession.create(...how);
    return {
      release: () => session.release(),
      async run(feeds, outputs) {
        const made = await session.run(feeds, outputs);
        const { y } = made;
        if (!y || y.dims.length !== 3) return made;
        const values = Float32Array.from(y.data);
        const [batch, rows, columns] = y.dims;
        const at = (b, r, c) => (b * rows + r) * columns + c;
        const wrong = globalThis.fault ? faults[globalThis.fault](values, { batch, rows, columns, at, last }) : values;
        last = values;
        return { y: new real.Tensor('float32', wrong, y.dims) };
      },
    };
  },
};
"""
MOVED = "(v, {{batch, rows, columns, at}}) => {{ const w = v.slice(); for (let b = 0; b < batch; b++) \
for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) w[at(b, r, c)] = v[{source}]; return w; }}"
FAULTS = {
    "transposed output": MOVED.format(source="at(b, c, r)"),
    "swapped axis": MOVED.format(source="at(b, rows - 1 - r, c)"),
    "wrong sign": "(v) => v.map((x) => -x)",
    "off by one row": MOVED.format(source="at(b, (r + 1) % rows, c)"),
    "NaN": "(v) => { const w = v.slice(); w[5] = NaN; return w; }",
    "stale output": "(v, { last }) => last && last.length === v.length ? last : v",
    "float16 rounding": "(v) => Float32Array.from(new Float16Array(v))",
    "dropped last element": "(v) => { const w = v.slice(); w[w.length - 1] = 0; return w; }",
    "zeros": "(v) => new Float32Array(v.length)",
    "shuffled batch": MOVED.format(source="at((b + 1) % batch, r, c)"),
    "scaled by 1.001": "(v) => v.map((x) => 1.001 * x)",
    "truncated integers": "(v) => v.map(Math.trunc)",
}


class SquareTask(small_models.SmallTask):
    """Products of squares, so that a transposed output has the right shape; targets are the reference's outputs."""

    inputs = (TensorSpec(name="x", dtype="float32", shape=("batch", SIZE, SIZE)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", SIZE, SIZE)),)
    metric_name = "error"
    higher_is_better = False
    max_metric_loss = 1e-4

    def samples(self, split: str) -> Samples:
        values = np.random.default_rng(3).standard_normal((NUM_SAMPLES, SIZE, SIZE)).astype(np.float32)
        return Samples(inputs={"x": values}, targets=list(expected(values)))

    def loss(self, outputs: Arrays, targets: Any) -> float:
        return float(np.abs(outputs["y"] - np.stack(targets)).mean())

    def metrics(self, outputs: Arrays, targets: Any) -> dict[str, float]:
        return {"error": self.loss(outputs, targets)}


class TolerantTask(SquareTask):
    """Its metric allows any error: the outputs themselves tell."""

    max_metric_loss = 1e9


def weights() -> np.ndarray:
    return 2 * small_models.floats(SIZE, SIZE)


def expected(values: np.ndarray) -> np.ndarray:
    return np.float32(values @ weights())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page with the patched copy of the package."""
    runtime = browsing.runtime()
    browsers.need(runtime)
    folder = tmp_path_factory.mktemp("packages")
    own, real = (each / "node_modules" / "onnxruntime-web" / "dist" for each in (folder, npm.folder()))
    own.mkdir(parents=True)
    for path in real.glob("ort-wasm-simd-threaded.*"):
        (own / path.name).write_bytes(path.read_bytes())
    (own / "ort.real.mjs").write_bytes((real / "ort.wasm.min.mjs").read_bytes())
    listed = ", ".join(f"{name!r}: {code}" for name, code in FAULTS.items())
    (own / "ort.wasm.min.mjs").write_text(WRAPPER.replace("{FAULTS}", f"{{{listed}}}"))
    before, usual = browsing.browsers(), os.environ.get(npm.FOLDER)
    os.environ[npm.FOLDER] = str(folder)
    try:
        page = Page(runtime.command(), engine="ort", threads=1, provider="wasm")
    finally:
        os.environ.pop(npm.FOLDER) if usual is None else os.environ.update({npm.FOLDER: usual})
    yield page
    page.close()
    assert not browsing.left_since(before)


@pytest.fixture(scope="module")
def session(page: Page, tmp_path_factory: pytest.TempPathFactory) -> BrowserSession:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", SIZE, SIZE]) for name in ("x", "y")]
    table = onnx.numpy_helper.from_array(weights(), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "square", ports[:1], ports[1:], [table])
    path = tmp_path_factory.mktemp("square") / "square.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    task = small_models.make_task(SquareTask)
    fields = {"session": 1, "artifact": str(path), "provider": "cpu", "threads": 1, "inputs": ["x"], "outputs": ["y"]}
    return BrowserSession(page, path, task, 1, page.ask("open", fields).fields)


def judged(session: BrowserSession, page: Page, fault: str | None, kind: type[SquareTask]) -> str:
    task = small_models.make_task(kind)
    samples = task.samples("test")
    page._browser.evaluate(f"fault = {fault!r}; 0" if fault else "fault = null; 0")
    outputs = feeding.run_all(session.run, task, samples, BATCH)
    right = {"y": expected(samples.inputs["x"])}
    return quality.judge(task, samples, outputs, right).fidelity


@pytest.mark.parametrize("kind", [SquareTask, TolerantTask])
def test_without_a_fault_the_outputs_are_right(session: BrowserSession, page: Page, kind: type[SquareTask]) -> None:
    assert judged(session, page, None, kind) in (quality.EXACT, quality.CLOSE)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(session: BrowserSession, page: Page, fault: str) -> None:
    assert judged(session, page, fault, SquareTask) == quality.BROKEN
    assert judged(session, page, fault, TolerantTask) in (quality.BROKEN, quality.DRIFTED)
